#!/bin/sh
# Install the Debian packages that the tests use, if root; otherwise say loudly what will be skipped.
set -eu
for package in "$@"; do
    PATH="$PATH:/usr/sbin:/usr/local/sbin"
    command -v "$package" >/dev/null && continue
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing Debian's $package ..."
        # policy-rc.d would be the way to keep the service down; stopping it afterwards needs no such file
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
            apt-get install -y -qq --no-install-recommends "$package" >/dev/null && continue
    fi
    echo "*** $package is not here and could not be installed: THE TESTS THAT NEED IT WILL BE SKIPPED ***" >&2
    echo "*** to run them: sudo apt-get install $package ***" >&2
done
