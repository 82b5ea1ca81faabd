"""Installs a kit on a running board over the system's ssh: one connection, with the files on stdin of a script.

The script runs on the board to its end even if the connection is lost. It saves the current installation, runs the
kit's install.sh, and waits until systemd shows a new agent process that has connected to its broker. Otherwise it
restores the previous installation and starts it. The package itself is not downgraded: pip may have upgraded it, and
every version reads the configuration of earlier ones.
"""

from __future__ import annotations

import io
import shlex
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from core.errors import ConfigError, DeviceError, TransportError
from firmware_configs.flash.plan import kit_tag
from firmware_configs.kits.kit import MANIFEST, Kit, KitFile

__all__ = ["Pushed", "archive", "push_kit", "remote_command"]

INSTALL_FAILED, ROLLED_BACK, STOPPED, NO_SUDO, BUSY = 71, 72, 73, 74, 75
SSH_FAILED = 255

SCRIPT = f"""\
set -u
tag=$1 patience=$2 root=${{EDGESTILL_ROOT:-}} unit=edgestill-agent.service
trap '' HUP PIPE  # a lost connection does not stop us half-way
umask 077
home=$root/var/lib/edgestill-push etc=$root/etc/edgestill file=$root/etc/systemd/system/$unit
say() {{ echo "$*" 2>/dev/null || true; }}
show() {{ systemctl show --property "$1" --value "$unit" 2>/dev/null; }}
mkdir -p "$home" || exit 1
exec 9>"$home/lock"
flock -n 9 || exit {BUSY}
rm -rf "$home/new" "$home/before"
mkdir "$home/new" && tar -x -p -f - -C "$home/new" && test -f "$home/new/$tag/kit.json" || exit 1
sync
mkdir "$home/before"
if [ -d "$etc" ]; then cp -a "$etc" "$home/before/etc" || exit 1; fi
if [ -f "$file" ]; then cp -a "$file" "$home/before/unit" || exit 1; fi
former=$(show MainPID)
put_back() {{
    if [ ! -d "$home/before/etc" ]; then
        systemctl disable --now "$unit" >/dev/null 2>&1
        rm -rf "$etc" "$file"
        exit {STOPPED}
    fi
    rm -rf "$etc.bad"
    mv "$etc" "$etc.bad"
    mv "$home/before/etc" "$etc"
    [ ! -f "$home/before/unit" ] || mv "$home/before/unit" "$file"
    rm -rf "$etc.bad" "$home/new" "$home/before"
    sync
    systemctl daemon-reload
    systemctl restart --no-block "$unit"
}}
say "installing $tag"
if ! sh "$home/new/$tag/install.sh" </dev/null; then
    if [ -d "$home/before/etc" ] && ! diff -r "$home/before/etc" "$etc" >/dev/null 2>&1; then put_back; fi
    rm -rf "$home/new" "$home/before"
    exit {INSTALL_FAILED}
fi
say "waiting for the agent"
while [ "$patience" -gt 0 ]; do
    case "$(show MainPID) $(show StatusText)" in
        "0 "*|" "*|"$former "*) ;;
        *" connected"*) say "$(show StatusText)"; rm -rf "$home/new" "$home/before"; exit 0 ;;
    esac
    patience=$((patience - 1))
    sleep 1
done
say "the agent says: $(show StatusText)"
put_back
exit {ROLLED_BACK}
"""


@dataclass(frozen=True, slots=True)
class Pushed:
    """The output of the board."""

    lines: tuple[str, ...]


def archive(kit: Kit, signed: Mapping[str, bytes], wheels: Mapping[str, Path], packed: IO[bytes]) -> None:
    """Write the kit as a tar file, with a single top folder and the modes of its files; `wheels` are below wheels/."""
    files = {**kit.payload(), **{name: KitFile(data) for name, data in signed.items()}}
    top = kit_tag(kit, signed[MANIFEST])
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, file in sorted(files.items()):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mode = len(file.data), file.mode
            tar.addfile(entry, io.BytesIO(file.data))
        for name, path in sorted(wheels.items()):
            entry = tarfile.TarInfo(f"{top}/wheels/{name}")
            entry.size, entry.mode = kit.wheels[name].bytes, 0o644
            with path.open("rb") as source:
                tar.addfile(entry, source)


def remote_command(tag: str, seconds: int) -> str:
    """The command for the board's shell, run as root."""
    run = f"sh -c {shlex.quote(SCRIPT)} push {shlex.quote(tag)} {seconds}"
    may = f"sudo -n true 2>/dev/null || exit {NO_SUDO}"
    return f'if [ "$(id -u)" = 0 ]; then exec {run}; else {may}; exec sudo -n {run}; fi'


def push_kit(
    kit: Kit,
    signed: Mapping[str, bytes],
    host: str,
    *,
    wheels: Mapping[str, Path] | None = None,
    seconds: int = 60,
    ssh: Sequence[str] = ("ssh",),
) -> Pushed:
    """Install the kit on the board at `host` (user@host), with the files of its `wheels` by name.

    DeviceError if its agent does not run there afterwards.
    """
    if host.startswith("-"):
        raise ConfigError(f"host {host!r}: write user@host")
    command = [*ssh, "-o", "BatchMode=yes", "-T", "--", host, remote_command(kit_tag(kit, signed[MANIFEST]), seconds)]
    try:
        with tempfile.TemporaryFile(prefix="edgestill-") as packed:  # it has keys, and no name
            archive(kit, signed, wheels or {}, packed)
            packed.seek(0)
            done = subprocess.run(command, stdin=packed, capture_output=True, check=False)
    except OSError as error:
        raise ConfigError(f"{ssh[0]}: {error.strerror}; install ssh, or name another with --ssh") from None
    said = done.stdout.decode(errors="replace").splitlines()
    why = (done.stderr.decode(errors="replace").strip().splitlines() or said or ["no reason given"])[-1]
    if done.returncode == SSH_FAILED:
        raise TransportError(f"{host}: {why}; can you log in with `{shlex.join([*ssh, host])}` and no password?")
    if done.returncode:
        raise DeviceError(
            f"{host}: {_REASONS.get(done.returncode, 'could not install the kit').format(why=why, s=seconds)}"
        )
    return Pushed(tuple(said))


_REASONS = {
    INSTALL_FAILED: "install.sh failed ({why}); the previous installation keeps running",
    ROLLED_BACK: "the agent did not report within {s} s ({why}); the previous installation was restored and started",
    STOPPED: "the agent did not report within {s} s ({why}); there was no previous one, so it was stopped and removed",
    NO_SUDO: "sudo requires a password there; allow it without one, or push to root@host",
    BUSY: "another push is running there; wait for it",
}
