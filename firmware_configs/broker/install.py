"""install.sh of OUT/_fleet/broker: installs a fleet's broker files where Mosquitto reads them, owned by its user.

`edgestill broker install` runs it on this machine; on another one it is run from a copy of the folder. It is
idempotent, and is run again after a revocation, for example. The change is atomic:

    /etc/mosquitto/.edgestill-XXXXXX/    the files, mode 0600, owned by Mosquitto's user: it reads them after dropping
                                         root privileges, and again at every reload
    /etc/mosquitto/edgestill             a symbolic link to that folder, replaced by one rename
    /etc/mosquitto/conf.d/edgestill.conf the configuration for the installed version of Mosquitto

Before the link is changed, Mosquitto is started with the new files on a loopback port, as its own user.

With `--service` the fleet has a Mosquitto of its own, so that several fleets share a machine: in one process, clients
of the same name in two fleets would disconnect each other, whatever their listeners, and one fleet could use up the
memory of all.

    /etc/mosquitto/edgestill-FLEET                        the files, as above
    /etc/mosquitto/edgestill-FLEET.conf                   the whole configuration
    /etc/systemd/system/edgestill-broker-FLEET.service    unit.py
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from core.errors import ConfigError
from core.files import read_regular
from firmware_configs.broker.mosquitto import ACL_PLUGIN, FOLDER
from firmware_configs.broker.unit import UNITS, broker_unit
from wire.topics import ROOT, VERSION

__all__ = ["FILES", "SCRIPT", "InstallOptions", "Installed", "install_broker"]

FILES = ("acl", "broker.key", "broker.pem", "ca.pem", "crl.pem", "mosquitto-2.0.conf", "mosquitto-2.1.conf")
MOST = 16 * 2**20  # bytes of one file: a list of revoked certificates grows

SCRIPT = f"""\
#!/bin/sh
# Install the files beside this script for a Mosquitto. Run as root; may be run again, as after a revocation.
#   sh install.sh [--from FOLDER] [--to /etc/mosquitto] [--as FOLDER] [--owner mosquitto:mosquitto]
#                 [--form 2.0|2.1] [--plugin FILE] [--mosquitto PROGRAM] [--no-try] [--no-reload] [--dry-run]
#                 [--service] [--units {UNITS}]
# --service: a Mosquitto of the fleet's own, as a service of systemd: for several fleets on one machine.
# --as: the folder of --to as the broker sees it, such as /mosquitto/config in a container; --form with --no-try: for a
# Mosquitto that is not on this machine.
set -eu
umask 077
here=$(cd "$(dirname "$0")" && pwd)
to=/etc/mosquitto as= owner=mosquitto:mosquitto form= plugin= program= try=1 reload=1 dry=0 new= service=0 units={UNITS}
say() {{ echo "edgestill: $*"; }}
fail() {{ echo "edgestill: $*" >&2; exit 1; }}
trap '[ -z "$new" ] || rm -rf "$new"' EXIT
trap 'exit 130' HUP INT TERM
while [ $# -gt 0 ]; do
    case $1 in
        --no-try) try=0 ;;
        --no-reload) reload=0 ;;
        --dry-run) dry=1 ;;
        --service) service=1 ;;
        --from|--to|--as|--owner|--form|--plugin|--mosquitto|--units)
            [ $# -gt 1 ] || fail "$1 what?"
            case $1 in
                --from) here=$2 ;; --to) to=${{2%/}} ;; --as) as=${{2%/}} ;; --owner) owner=$2 ;;
                --form) form=$2 ;; --plugin) plugin=$2 ;; --mosquitto) program=$2 ;; --units) units=${{2%/}} ;;
            esac
            shift ;;
        *) fail "unknown option $1; the script's first lines tell those that it has" ;;
    esac
    shift
done
as=${{as:-$to}}
for path in "$to" "$as" "$plugin" "$program" "$units"; do
    case $path in *[!A-Za-z0-9._/-]*) fail "$path: only letters, digits and . _ / - may be in it" ;; esac
done
for file in {" ".join(FILES)}; do
    [ -f "$here/$file" ] && [ ! -L "$here/$file" ] || fail "$here has no file $file; is it _fleet/broker of provision?"
done
[ -d "$to" ] || fail "there is no folder $to; install Mosquitto first: sudo apt-get install mosquitto"
if [ -z "$program" ]; then
    program=$(PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v mosquitto) || program=
fi
if [ -z "$form" ]; then
    [ -n "$program" ] || fail "no mosquitto here; install it, or say --form 2.1 and --no-try for another machine"
    version=$("$program" -h 2>&1 | sed -n 's/.*mosquitto version \\([0-9]*\\.[0-9]*\\).*/\\1/p')
    case $version in
        2.0) form=2.0 ;;
        2.*|[3-9].*) form=2.1 ;;
        *) fail "$program is version ${{version:-unknown}}; edgestill needs Mosquitto 2.0 or newer" ;;
    esac
fi
case $form in 2.0|2.1) ;; *) fail "--form is 2.0 or 2.1, not $form" ;; esac
if [ "$form" = 2.1 ] && [ -z "$plugin" ] && [ "$try" = 1 ]; then
    for file in {ACL_PLUGIN} /usr/lib/*/mosquitto/mosquitto_acl_file.so /usr/lib/*/mosquitto_acl_file.so \\
        /usr/lib/mosquitto/mosquitto_acl_file.so /usr/local/lib/mosquitto_acl_file.so; do
        [ -n "$plugin" ] || [ ! -f "$file" ] || plugin=$file
    done
    # 2.1 still has the access list of 2.0 built in
    [ -n "$plugin" ] || {{ say "no mosquitto_acl_file.so here: the form for 2.0 is used"; form=2.0; }}
fi
plugin=${{plugin:-{ACL_PLUGIN}}}
fleet_of() {{ sed -n 's#^topic readwrite {ROOT}/{VERSION}/\\([^/]*\\)/.*#\\1#p' "$1/acl" 2>/dev/null | head -n 1; }}
port_of() {{ sed -n 's/^listener \\([0-9]*\\).*/\\1/p' "$1" 2>/dev/null | head -n 1; }}
fleet=$(fleet_of "$here")
case $fleet in ''|*[!A-Za-z0-9._-]*) fail "$here/acl names no fleet; is it _fleet/broker of provision?" ;; esac
if [ "$service" = 1 ]; then
    name=edgestill-$fleet conf=$to/edgestill-$fleet.conf unit=$units/edgestill-broker-$fleet.service
    [ -n "$program" ] || fail "no mosquitto here, which the service would run"
    [ -d "$units" ] || fail "there is no folder $units; --service needs systemd, or say --units"
else
    name=edgestill conf=$to/conf.d/edgestill.conf unit=
    other=$(fleet_of "$to/edgestill")
    [ -z "$other" ] || [ "$other" = "$fleet" ] ||
        fail "$to/edgestill is the broker of fleet $other; fleet $fleet needs one of its own: say --service"
    grep -Eqs "^[[:space:]]*include_dir[[:space:]]+$as/conf\\\\.d/?[[:space:]]*$" "$to/mosquitto.conf" ||
        fail "$to/mosquitto.conf does not include $as/conf.d; add the line: include_dir $as/conf.d"
fi
port=$(port_of "$here/mosquitto-$form.conf")
for file in "$to/conf.d/edgestill.conf" "$to"/edgestill-*.conf; do
    [ "$file" != "$conf" ] && [ "$(port_of "$file")" = "$port" ] || continue
    used="port $port is that of $file"
    fail "$used; give fleet $fleet another one as port of [broker], and run edgestill provision again"
done
if [ "$dry" = 1 ]; then
    say "would install $here as $to/$name (files of $owner, 0600) and $conf (form $form)${{unit:+, and $unit}}"
    exit 0
fi
[ -z "$owner" ] || [ "$(id -u)" = 0 ] || fail "run this as root: sudo"

new=$(mktemp -d "$to/.edgestill-XXXXXX")
rendered() {{ sed -e "s#{FOLDER}/#$1/#" -e "s#^plugin .*#plugin $plugin#" "$here/mosquitto-$form.conf"; }}
for file in {" ".join(FILES)}; do
    cat "$here/$file" >"$new/$file"
done
if [ -n "$owner" ]; then
    chown "$owner" "$new"/* || fail "there is no $owner on this machine; install Mosquitto, or say --owner"
    chown "0:${{owner#*:}}" "$new"
    chmod 750 "$new"
fi
rendered "$as/$name" >"$new/edgestill.conf"
if [ -n "$unit" ]; then
    cat >"$new/.unit" <<'UNIT'
{broker_unit("@FLEET@", program="@PROGRAM@", conf="@CONF@", user="@USER@", group="@GROUP@")}UNIT
    sed -i -e "s#@FLEET@#$fleet#g" -e "s#@PROGRAM@#$program#g" -e "s#@CONF@#$as/$name.conf#g" \\
        -e "s#@USER@#${{owner%%:*}}#g" -e "s#@GROUP@#${{owner#*:}}#g" "$new/.unit"
    chmod 644 "$new/.unit"
fi
if [ "$try" = 1 ]; then
    first=$((20000 + $$ % 20000)) started=
    for attempt in 1 2 3 4 5; do
        rendered "$new" | sed "s#^listener .*#listener $((first + attempt)) 127.0.0.1#" >"$new/try.conf"
        "$program" -c "$new/try.conf" >"$new/try.log" 2>&1 &
        pid=$! waited=0
        while [ $waited -lt 50 ] && kill -0 $pid 2>/dev/null && ! grep -q ' running$' "$new/try.log"; do
            sleep 0.1
            waited=$((waited + 1))
        done
        ! grep -q ' running$' "$new/try.log" || started=1
        kill $pid 2>/dev/null || true
        wait $pid 2>/dev/null || true
        [ -z "$started" ] && grep -q 'Address already in use' "$new/try.log" || break
    done
    why=$(grep -i error "$new/try.log" | sed 's/^[0-9]*: //' | head -n 1)
    [ -n "$started" ] || fail "Mosquitto does not start with these files, nothing was changed: ${{why:-no reason}}"
    rm "$new/try.conf" "$new/try.log"
fi

mkdir -p "${{conf%/*}}"
former=
[ ! -L "$to/$name" ] || former=$(readlink "$to/$name")
same=0
[ -z "$former" ] || ! cmp -s "$new/edgestill.conf" "$conf" || same=1
[ -z "$unit" ] || cmp -s "$new/.unit" "$unit" || same=0
cp "$new/edgestill.conf" "$new/.conf" && chmod 644 "$new/.conf"
ln -s "${{new##*/}}" "$new/.link"
sync
if [ -d "$to/$name" ] && [ ! -L "$to/$name" ]; then  # copied by hand, before there was this script
    rm -rf "$to/$name.before"
    mv "$to/$name" "$to/$name.before"
fi
installed=$new
new=  # from here on it stays
mv -T "$installed/.link" "$to/$name"
mv "$installed/.conf" "$conf"
if [ -n "$unit" ]; then
    cp "$installed/.unit" "$unit.new" && chmod 644 "$unit.new" && mv "$unit.new" "$unit" && rm "$installed/.unit"
    [ ! -d /run/systemd/system ] || systemctl daemon-reload
fi
sync
case $former in .edgestill-*) rm -rf "${{to:?}}/$former" ;; esac
say "$to/$name has the files of fleet $fleet, $conf the form for Mosquitto $form${{unit:+, $unit its service}}"
running=mosquitto
[ -z "$unit" ] || running=edgestill-broker-$fleet
if [ "$reload" = 0 ]; then
    exit 0
elif [ -n "$unit" ] && [ -z "$former" ]; then
    say "start it, now and at every boot: sudo systemctl enable --now $running"
    exit 0
elif [ "$same" = 0 ]; then
    say "restart Mosquitto: sudo systemctl restart $running"
    exit 0
fi
pid=
if [ -n "$unit" ]; then
    for process in /proc/[0-9]*; do
        words=$(tr '\\0' ' ' 2>/dev/null <"$process/cmdline") || continue
        case $words in *"mosquitto -c $as/$name.conf "*) pid=${{process#/proc/}} ;; esac
    done
else
    file=$(sed -n 's/^[[:space:]]*pid_file[[:space:]]\\{{1,\\}}//p' "$to/mosquitto.conf" | tail -n 1)
    pid=$([ -z "$file" ] || cat "$file" 2>/dev/null) || pid=
fi
case $(cat "/proc/${{pid:-none}}/comm" 2>/dev/null) in
    mosquitto*) kill -HUP "$pid" && say "Mosquitto (process $pid) has read them again" ;;
    *) say "no running Mosquitto was found; if it runs, reload it: sudo systemctl reload $running" ;;
esac
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallOptions:
    """Options of the script; None means that the script detects the value."""

    to: Path = Path("/etc/mosquitto")  # the folder of Mosquitto's configuration
    seen: Path | None = None  # path of that folder inside the broker's container
    owner: str = "mosquitto:mosquitto"  # USER:GROUP of the files; empty: the user who runs the script
    form: str | None = None  # version of the configuration format: "2.0" or "2.1"
    plugin: Path | None = None  # for 2.1: mosquitto_acl_file.so
    program: Path | None = None  # mosquitto
    trial: bool = True  # first start Mosquitto with the files on a loopback port
    reload: bool = True  # make a running Mosquitto reload them
    service: bool = False  # a Mosquitto of the fleet's own, as a service of systemd
    units: Path | None = None  # the folder of systemd's units
    dry_run: bool = False  # check everything, change nothing

    def words(self) -> list[str]:
        """The options as arguments of the script."""
        given = {
            "--to": self.to,
            "--as": self.seen,
            "--owner": self.owner,
            "--form": self.form,
            "--plugin": self.plugin,
            "--mosquitto": self.program,
            "--units": self.units,
        }
        switches = {
            "--no-try": not self.trial,
            "--no-reload": not self.reload,
            "--service": self.service,
            "--dry-run": self.dry_run,
        }
        words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
        return [*words, *(name for name, on in switches.items() if on)]


@dataclass(frozen=True, slots=True)
class Installed:
    """The output of the script."""

    lines: tuple[str, ...]


def install_broker(folder: Path, options: InstallOptions) -> Installed:
    """Install the broker files of `folder` on this machine."""
    _check(folder)
    command = ["sh", "-c", SCRIPT, str(folder / "install.sh"), "--from", str(folder), *options.words()]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "the installation failed").splitlines()[-1]
        raise ConfigError(said.removeprefix("edgestill: "))
    return Installed(tuple(line.removeprefix("edgestill: ") for line in done.stdout.splitlines()))


def _check(folder: Path) -> None:
    """Refuse a folder that `edgestill provision` did not create, before anything runs."""
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; give --from KITS/_fleet/broker of `edgestill provision`")
    try:
        held = {name: read_regular(folder / name, MOST) for name in FILES}
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}; give --from the _fleet/broker of provision") from None
    try:
        cert = x509.load_pem_x509_certificate(held["broker.pem"])
        key = serialization.load_pem_private_key(held["broker.key"], password=None)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{folder}: broker.pem or broker.key cannot be used: {error}; provision again") from None
    if key.public_key() != cert.public_key():
        raise ConfigError(f"{folder}: broker.key is not the key of broker.pem; run `edgestill provision` again")
