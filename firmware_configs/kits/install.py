"""install.sh of a kit: installs the agent on a running board with systemd.

It may be run again, with the same kit or a newer one. What is installed is the kit's lock for the board's Python,
`locks/py3.11.txt`, and nothing else: pip checks every wheel against its SHA-256. Wheels come from `wheels/` next to the
script, or from where `edgestill flash` has put them; what is missing then is fetched from the fleet's machine, if the
kit has its address (`on_board/fetch_wheels.py`), or by pip, if the kit is for boards that have an index.
An installation that was interrupted begins again in a new virtual environment, because half of a package looks whole
to pip. The agent cannot write where its packages are, so the modules that it imports are compiled here
(`edge_agent/precompile.py`); pip would compile all. Configuration and keys are replaced by one rename; the previous
ones stay as /etc/edgestill.old.
/opt/edgestill-current names the environment that the agent runs in: this one, until an upgrade (kits/upgrades/).
EDGESTILL_ROOT installs everything below another folder without changing users and services: for images prepared in a
chroot, and for tests.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from firmware_configs.kits.clock import SET_CLOCK
from firmware_configs.kits.resolve import ARCHS
from firmware_configs.kits.unit import CURRENT, MODEL_DIR, MODEL_GROUP, NAME
from firmware_configs.kits.upgrades.installer import FOLDER, PATH_UNIT, SERVICE, STATUS_DIR

__all__ = ["ROOT_WHEELS", "Install", "install_script"]

#: On the root file system of a board: wheels that have no room on its boot partition, and those that it fetches.
ROOT_WHEELS = "var/lib/edgestill-wheels"

_SCRIPT = """\
#!/bin/sh
# Install the edgestill agent of this kit. Run as root; may be run again.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=${EDGESTILL_ROOT:-}
machine=@MACHINE@
wheels=@WHEELS@
index=@INDEX@
site=@SITE@
fetch=@FETCH@
need_mb=@NEED@
unit=@UNIT@
venv=$root/opt/edgestill

say() { echo "edgestill: $*"; }
fail() { echo "edgestill: $*" >&2; exit 1; }

[ -n "$root" ] || [ "$(id -u)" = 0 ] || fail "run this as root: sudo sh $0"
@CLOCK@python= seen=
facts='import ensurepip, platform, sys, venv; print("%d.%d" % sys.version_info[:2], platform.machine())'
for candidate in ${EDGESTILL_PYTHON:-python3 python3.13 python3.12 python3.11 python3.10}; do
    answer=$("$candidate" -c "$facts" 2>/dev/null) || continue
    version=${answer% *}
    [ "${answer#* }" = "$machine" ] || fail "this kit is for $machine, and this machine is ${answer#* }"
    seen="$seen $version"
    lock=$here/locks/py$version.txt
    if [ "$wheels" = none ] || [ -f "$lock" ]; then
        python=$candidate
        break
    fi
done
[ -n "$seen" ] || fail "no Python with venv; install python3-venv"
[ -n "$python" ] ||
    fail "this board has Python$seen, the kit has $(cd "$here/locks" && echo *); set 'python' of its group"

if [ -z "$root" ]; then
    id edgestill >/dev/null 2>&1 ||
        useradd --system --home-dir /var/lib/edgestill --shell /usr/sbin/nologin edgestill
    getent group @MODEL_GROUP@ >/dev/null || groupadd --system @MODEL_GROUP@
fi

fetched=$root/@ROOT_WHEELS@
card=$root/boot/firmware/edgestill/wheels
jetson=$root/var/lib/edgestill-kits/wheels
if [ "$wheels" = none ]; then
    [ -x "$venv/bin/edgestill" ] || fail "this kit brings no wheels, and there is no edgestill in $venv"
else
    mkdir -p "$root/opt"
    # half of a package looks whole to pip: what was interrupted begins again
    [ ! -e "$venv.installing" ] || rm -rf "$venv"
    new=
    if [ ! -x "$venv/bin/python" ]; then
        free_mb=$(df -Pk "$root/opt" | awk 'NR == 2 { printf "%d", $4 * 1.024e-3 }')
        [ "$free_mb" -ge "$need_mb" ] || fail "$free_mb MB are free in $root/opt, and the packages take $need_mb MB"
        new=1
    fi
    [ -z "$fetch" ] || mkdir -p "$fetched"
    set --
    for folder in "$here/wheels" "$card" "$jetson" "$fetched"; do
        [ ! -d "$folder" ] || set -- "$@" --find-links "$folder"
    done
    if [ -n "$fetch" ]; then  # before anything is installed: a board whose network comes late is left as it is
        by=$venv/bin/python more=--installed
        [ -z "$new" ] || by=$python more="--spare-mb $need_mb"
        "$by" -I "$here/fetch_wheels.py" --lock "$lock" --to "$fetched" $more "$@"
    fi
    if [ -n "$new" ]; then
        : > "$venv.installing"
        "$python" -m venv $site "$venv"
    fi
    pip="-m pip --quiet --disable-pip-version-check --no-input"
    export PIP_NO_COMPILE=no  # which is how pip wants to hear it: few of all modules are ever imported
    if [ "$wheels" = network ]; then
        say "fetching what $lock names"
        mkdir -p "$fetched"
        [ -z "$index" ] || set -- "$@" --extra-index-url "$index"
        "$venv/bin/python" $pip download --no-deps --only-binary=:all: --require-hashes --dest "$fetched" \\
            "$@" --requirement "$lock"
        set -- --find-links "$fetched"
    fi
    say "installing what $lock names"
    : > "$venv.installing"
    sync
    "$venv/bin/python" $pip install --no-deps --no-index --require-hashes "$@" --requirement "$lock"
    sync
    rm -f "$venv.installing"
    "$venv/bin/python" -I -m edge_agent.precompile "$here/agent.toml" ||
        say "the agent cannot do its work here yet; on the board, edgestill doctor tells what is missing"
fi

etc=$root/etc/edgestill
mkdir -p "$root/etc" "$root/etc/systemd/system" "$root/var/lib/edgestill" "$root@MODEL_DIR@"
# applications of other users read the model here, if they are in its group
[ -n "$root" ] || chown edgestill:@MODEL_GROUP@ @MODEL_DIR@
chmod 750 "$root@MODEL_DIR@"
rm -rf "$etc.new"
umask 077
mkdir -p "$etc.new/tls"
for file in agent.toml aggregator.pub device.key model.onnx kit.json kit.sig board.toml; do
    [ ! -f "$here/$file" ] || cp "$here/$file" "$etc.new/$file"
done
cp "$here"/tls/* "$etc.new/tls/"
find "$etc.new" -type f -exec chmod 600 {} +  # a FAT partition has no modes: all files are executable
find "$etc.new" -type d -exec chmod 700 {} +
[ -n "$root" ] || chown -R edgestill:edgestill "$etc.new"
sync
rm -rf "$etc.old"
[ ! -d "$etc" ] || mv "$etc" "$etc.old"
mv "$etc.new" "$etc"
umask 022
cp "$here/$unit" "$root/etc/systemd/system/$unit"
chmod 644 "$root/etc/systemd/system/$unit"
if [ -f "$here/upgrade.pyz" ]; then  # root's alone: what the agent hands over is checked with this key
    mkdir -p "$root@UPGRADE@" "$root@STATUS@"
    for file in upgrade.pyz fleet-kit.pub; do
        cp "$here/$file" "$root@UPGRADE@/$file"
    done
    cp "$here/upgrade.json" "$root@UPGRADE@/board.json"
    [ -f "$root@STATUS@/status.json" ] || echo '{}' > "$root@STATUS@/status.json"
    chmod 755 "$root@UPGRADE@" "$root@STATUS@"
    chmod 644 "$root@UPGRADE@"/* "$root@STATUS@/status.json"
    for file in @UPGRADE_SERVICE@ @UPGRADE_PATH@; do
        cp "$here/$file" "$root/etc/systemd/system/$file"
        chmod 644 "$root/etc/systemd/system/$file"
    done
fi
# what runs is this kit's, not what an upgrade has installed beside it
rm -f "$root/opt/.edgestill-current.new"
ln -s edgestill "$root/opt/.edgestill-current.new"
mv -T "$root/opt/.edgestill-current.new" "$root@CURRENT@"
rm -rf "$card" "$jetson" "$fetched"

if [ -z "$root" ]; then
    systemctl daemon-reload
    systemctl enable "$unit"
    if [ -f "$here/upgrade.pyz" ]; then
        systemctl stop @UPGRADE_SERVICE@ @UPGRADE_PATH@
        "$venv/bin/python" -I @UPGRADE@/upgrade.pyz @UPGRADE@/board.json --reset
        systemctl enable @UPGRADE_SERVICE@
        systemctl enable --now @UPGRADE_PATH@
    fi
    systemctl restart --no-block "$unit"
    say "$unit is started; its log: journalctl -u $unit"
else
    say "installed below $root"
fi
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """What the script of one kit does."""

    arch: str
    wheels: str  # card, fleet: wheels alone; network: pip fetches the others; none: the package is installed already
    fetch: bool = False  # wheels that are not there come from the fleet's machine, whose address kit.json has
    index: str | None = None  # a further one for pip, besides the board's
    system_packages: bool = False  # the virtual environment sees those of the board's system
    need_mb: int = 0  # 1e6 bytes of the disk, for a new installation


def install_script(install: Install) -> str:
    """The text of install.sh."""
    values = {
        "@MACHINE@": ARCHS[install.arch],
        "@WHEELS@": install.wheels,
        "@INDEX@": shlex.quote(install.index or ""),
        "@FETCH@": "1" if install.fetch else "",
        "@SITE@": "--system-site-packages" if install.system_packages else "",
        "@NEED@": str(install.need_mb),
        "@ROOT_WHEELS@": ROOT_WHEELS,
        "@UNIT@": NAME,
        "@MODEL_DIR@": MODEL_DIR,
        "@MODEL_GROUP@": MODEL_GROUP,
        "@CLOCK@": SET_CLOCK,
        "@CURRENT@": CURRENT,
        "@UPGRADE@": FOLDER,
        "@STATUS@": STATUS_DIR,
        "@UPGRADE_SERVICE@": SERVICE,
        "@UPGRADE_PATH@": PATH_UNIT,
    }
    return re.sub(r"@[A-Z_]+@", lambda found: values[found[0]], _SCRIPT)
