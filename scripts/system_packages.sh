#!/bin/sh
# Install the Debian packages that the tests use, if root; otherwise print which tests will be skipped.
# An argument is a package, or package:command if the command that indicates its presence has another name.
set -eu
PATH="$PATH:/usr/sbin:/usr/local/sbin:/sbin"
missing=
for wanted in "$@"; do
    command -v "${wanted#*:}" >/dev/null || missing="$missing ${wanted%%:*}"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing Debian's$missing ..."
    # policy-rc.d would be the way to keep services down; in a container without an init none is started
    install() { DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
    apt-get update -qq || true
    install $missing && exit 0
    left=
    for package in $missing; do  # an unavailable package must not prevent the others
        install "$package" || left="$left $package"
    done
    missing=$left
    [ -n "$missing" ] || exit 0
fi
echo "*** missing and could not be installed:$missing: THE TESTS THAT NEED IT WILL BE SKIPPED ***" >&2
echo "*** to run them: sudo apt-get install$missing ***" >&2
