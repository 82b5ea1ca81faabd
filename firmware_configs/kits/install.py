"""install.sh of a kit: installs the agent on a running board with systemd.

It may be run again, with the same kit or a newer one. The package comes from `wheels/` next to the script or from
`edgestill/wheels` of the boot partition, if there is such a folder, else from pip's index. Configuration and keys are
replaced by one rename; the previous ones stay as /etc/edgestill.old. EDGESTILL_ROOT installs everything below another
folder without changing users and services: for images prepared in a chroot, and for tests.
"""

from __future__ import annotations

import re
import shlex

from firmware_configs.kits.unit import NAME

__all__ = ["install_script"]

_SCRIPT = """\
#!/bin/sh
# Install the edgestill agent of this kit. Run as root; may be run again.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=${EDGESTILL_ROOT:-}
package=@PACKAGE@
extra=@EXTRA@
unit=@UNIT@

say() { echo "edgestill: $*"; }
fail() { echo "edgestill: $*" >&2; exit 1; }

[ -n "$root" ] || [ "$(id -u)" = 0 ] || fail "run this as root: sudo sh $0"
python=
for candidate in ${EDGESTILL_PYTHON:-python3 python3.13 python3.12 python3.11 python3.10}; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || fail "no Python 3.10 or newer with venv; install python3-venv"

if [ -z "$root" ]; then
    id edgestill >/dev/null 2>&1 ||
        useradd --system --home-dir /var/lib/edgestill --shell /usr/sbin/nologin edgestill
fi

venv=$root/opt/edgestill
[ -x "$venv/bin/python" ] || { mkdir -p "$root/opt"; "$python" -m venv "$venv"; }
wheels=
for folder in "$here/wheels" "$root/boot/firmware/edgestill/wheels"; do
    [ ! -d "$folder" ] || wheels=$folder
done
if [ -n "$wheels" ]; then
    say "installing $package from $wheels"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade \\
        --no-index --find-links "$wheels" "edgestill${extra:+[$extra]}"
else
    say "installing $package from the network"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade "$package"
fi

etc=$root/etc/edgestill
mkdir -p "$root/etc" "$root/etc/systemd/system" "$root/var/lib/edgestill"
rm -rf "$etc.new"
umask 077
mkdir -p "$etc.new/tls"
for file in agent.toml aggregator.pub device.key model.onnx kit.json kit.sig; do
    [ ! -f "$here/$file" ] || cp "$here/$file" "$etc.new/$file"
done
cp "$here"/tls/* "$etc.new/tls/"
chmod -R u=rwX,go= "$etc.new"  # a FAT partition knows no modes
[ -n "$root" ] || chown -R edgestill:edgestill "$etc.new"
sync
rm -rf "$etc.old"
[ ! -d "$etc" ] || mv "$etc" "$etc.old"
mv "$etc.new" "$etc"
umask 022
cp "$here/$unit" "$root/etc/systemd/system/$unit"
chmod 644 "$root/etc/systemd/system/$unit"

if [ -z "$root" ]; then
    systemctl daemon-reload
    systemctl enable "$unit"
    systemctl restart --no-block "$unit"
    say "$unit is started; journalctl -u $unit shows what it says"
else
    say "installed below $root"
fi
"""


def install_script(package: str, extra: str) -> str:
    """The script for the pip requirement `package`; `extra` may be empty."""
    values = {"@PACKAGE@": shlex.quote(_with_extra(package, extra)), "@EXTRA@": shlex.quote(extra), "@UNIT@": NAME}
    return re.sub(r"@[A-Z]+@", lambda found: values[found[0]], _SCRIPT)


def _with_extra(package: str, extra: str) -> str:
    """`edgestill @ https://...` with an extra is `edgestill[train] @ https://...`."""
    name, at, address = package.partition(" @ ")
    return f"{name}[{extra}]{at}{address}" if extra else package
