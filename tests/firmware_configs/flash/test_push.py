"""A kit goes to a board over a real ssh and sshd on loopback, and the board goes back if its agent stays silent.

The "board" is a folder of this machine. In place of systemd, which does not run in a container, a small script answers
as systemctl would for an agent that does what the kit's agent.toml says: `connects`, `silent` or `dies`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import pytest

from core.errors import ConfigError, DeviceError, TransportError
from firmware_configs.flash.push import archive, push_kit
from firmware_configs.kits.kit import Kit, KitFile, KitWheel, write_kit
from firmware_configs.kits.signed import open_kit
from tests.brokers import free_port
from tests.firmware_configs.flash.made_cards import KEY, tree
from tests.transport.events import eventually
from wire.keys import save_public_key

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
needs_sshd = pytest.mark.skipif(
    SSHD is None or os.geteuid() != 0, reason="no sshd, or not root: apt-get install openssh-server"
)
INSTALL = """#!/bin/sh
set -eu
here=$(dirname "$0"); etc=$EDGESTILL_ROOT/etc/edgestill
! grep -q breaks "$here/agent.toml" || { echo 'no disk space' >&2; exit 1; }
rm -rf "$etc"; mkdir -p "$etc"; cp "$here/agent.toml" "$here/device.key" "$etc/"
mkdir -p "$EDGESTILL_ROOT/etc/systemd/system"
cp "$here/edgestill-agent.service" "$EDGESTILL_ROOT/etc/systemd/system/"
systemctl restart --no-block edgestill-agent.service
"""
SYSTEMCTL = """#!/bin/sh
echo "$*" >> "$EDGESTILL_ROOT/systemctl.log"
agent=$EDGESTILL_ROOT/etc/edgestill/agent.toml
case "$*" in
    restart*) n=$(cat "$EDGESTILL_ROOT/pid" 2>/dev/null || echo 100); echo $((n + 1)) > "$EDGESTILL_ROOT/pid" ;;
    *MainPID*) if grep -qs dies "$agent"; then echo 0; else cat "$EDGESTILL_ROOT/pid" 2>/dev/null || echo 0; fi ;;
    *StatusText*) if grep -qs connects "$agent"; then echo connected to broker; else echo looking for the broker; fi ;;
esac
"""


def kit(folder: Path, behaviour: str, number: int = 1) -> tuple[Kit, dict[str, bytes]]:
    files = {
        "agent.toml": KitFile(f"{behaviour} {number}\n".encode()),
        "device.key": KitFile(b"SECRET", 0o600),
        "edgestill-agent.service": KitFile(f"[Unit]\nDescription={number}\n".encode()),
        "install.sh": KitFile(INSTALL.encode(), 0o755),
        "boot/bookworm/firstrun.sh": KitFile(b"not for push"),
    }
    when = "2026-11-16T10:00:00Z"
    made = Kit(fleet="garden", device="pi-07", board="rpi-4", os=("bookworm",), created=when, files=files)
    folder.mkdir(exist_ok=True)
    save_public_key(KEY.public_key(), folder / "fleet-kit.pub")
    write_kit(folder / "pi-07", made, KEY)
    return open_kit(folder / "pi-07", None)


@dataclass
class Board:
    root: Path
    ssh: list[str]

    def push(self, what: tuple[Kit, dict[str, bytes]], seconds: int = 60) -> tuple[str, ...]:
        return push_kit(*what, "127.0.0.1", seconds=seconds, ssh=self.ssh).lines

    def installed(self) -> dict[str, bytes]:
        """Every file of /etc; looked at again where one was moved meanwhile."""
        for _ in range(100):
            with suppress(FileNotFoundError):
                return tree(self.root / "etc")
        return tree(self.root / "etc")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    return folder


@pytest.fixture
def board(tmp_path: Path, keys: Path) -> Iterator[Board]:
    commands, root = tmp_path / "bin", tmp_path / "root"
    for folder in (commands, root):
        folder.mkdir()
    (commands / "systemctl").write_text(SYSTEMCTL)
    (commands / "systemctl").chmod(0o755)
    Path("/run/sshd").mkdir(exist_ok=True)
    port = free_port()
    config = [f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {keys}/host", "PidFile none", "UsePAM no"]
    config += [f"AuthorizedKeysFile {keys}/user.pub", "StrictModes no", "PasswordAuthentication no"]
    config += ["PermitRootLogin prohibit-password", f"SetEnv EDGESTILL_ROOT={root} PATH={commands}:/usr/bin:/bin"]
    (tmp_path / "sshd_config").write_text("\n".join(config) + "\n")
    assert SSHD is not None
    server = subprocess.Popen([SSHD, "-D", "-e", "-f", str(tmp_path / "sshd_config")], stderr=subprocess.PIPE)
    known = tmp_path / "known_hosts"
    known.write_text(f"[127.0.0.1]:{port} {(keys / 'host.pub').read_text()}")
    options = ["-F", "none", "-p", str(port), "-i", f"{keys}/user", "-o", f"UserKnownHostsFile={known}"]
    _wait_for(port, server)
    yield Board(root, ["ssh", *options])
    server.terminate()
    server.wait(120)


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    def listens() -> bool:
        assert server.poll() is None, server.stderr.read() if server.stderr else ""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    assert eventually(listens), "sshd does not listen"


@needs_sshd
def test_a_kit_is_installed_and_its_agent_reports(board: Board, tmp_path: Path) -> None:
    said = board.push(kit(tmp_path / "kits", "connects"))
    assert said[-1] == "connected to broker"
    assert board.installed()["edgestill/agent.toml"] == b"connects 1\n"
    assert [path.name for path in (board.root / "var/lib/edgestill-push").iterdir()] == ["lock"]


@needs_sshd
@pytest.mark.parametrize("behaviour", ["silent", "dies"])
def test_an_agent_that_does_not_report_gives_way_to_the_one_before(
    behaviour: str, board: Board, tmp_path: Path
) -> None:
    board.push(kit(tmp_path / "kits", "connects"))
    before, started = board.installed(), (board.root / "pid").read_text()
    with pytest.raises(DeviceError, match=r"did not report within 2 s .*the previous installation was restored"):
        board.push(kit(tmp_path / "kits", behaviour, 2), seconds=2)
    assert board.installed() == before
    assert int((board.root / "pid").read_text()) == int(started) + 2  # the new one, and the old one again
    assert [path.name for path in (board.root / "var/lib/edgestill-push").iterdir()] == ["lock"]


@needs_sshd
def test_a_first_agent_that_does_not_report_is_removed(board: Board, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="there was no previous one"):
        board.push(kit(tmp_path / "kits", "silent"), seconds=1)
    assert board.installed() == {}
    assert "disable --now edgestill-agent.service" in (board.root / "systemctl.log").read_text()


@needs_sshd
def test_an_installer_that_fails_leaves_what_runs(board: Board, tmp_path: Path) -> None:
    board.push(kit(tmp_path / "kits", "connects"))
    before, started = board.installed(), (board.root / "pid").read_text()
    with pytest.raises(
        DeviceError, match=r"install\.sh failed \(no disk space\); the previous installation keeps running"
    ):
        board.push(kit(tmp_path / "kits", "breaks", 2))
    assert (board.installed(), (board.root / "pid").read_text()) == (before, started)


@needs_sshd
def test_a_connection_that_is_lost_does_not_leave_a_bad_agent(board: Board, tmp_path: Path) -> None:
    board.push(kit(tmp_path / "kits", "connects"))
    before = board.installed()
    what = kit(tmp_path / "kits", "silent", 2)
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            board.push(what, seconds=2)
        finally:
            os._exit(0)
    assert eventually(lambda: board.installed().get("edgestill/agent.toml") == b"silent 2\n")
    os.killpg(child, 9)  # with its ssh
    os.waitpid(child, 0)
    assert eventually(lambda: board.installed() == before)
    lock = board.root / "var/lib/edgestill-push/lock"  # the board's half still holds it until it has cleaned up
    subprocess.run(["flock", str(lock), "true"], check=True, timeout=120)


@needs_sshd
def test_two_pushes_at_once_do_not_mix(board: Board, tmp_path: Path) -> None:
    home = board.root / "var/lib/edgestill-push"
    home.mkdir(parents=True)
    with subprocess.Popen(["flock", str(home / "lock"), "sleep", "60"]) as holder:
        assert eventually(lambda: subprocess.run(["flock", "-n", str(home / "lock"), "true"]).returncode != 0)
        with pytest.raises(DeviceError, match="another push"):
            board.push(kit(tmp_path / "kits", "connects"))
        holder.kill()


def test_a_host_that_cannot_be_reached_is_a_matter_of_the_connection(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ssh = ["ssh", "-F", "none", "-p", str(port)]
    with pytest.raises(TransportError, match=r"127\.0\.0\.1: .*refused.*can you log in"):
        push_kit(*kit(tmp_path / "kits", "connects"), "127.0.0.1", ssh=ssh)


def test_a_host_cannot_be_an_option_of_ssh(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="write user@host"):
        push_kit(*kit(tmp_path / "kits", "connects"), "-oProxyCommand=reboot")


def test_an_ssh_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="install ssh"):
        push_kit(*kit(tmp_path / "kits", "connects"), "h", ssh=["no-such-ssh"])


def test_the_archive_keeps_modes_and_leaves_boot_files_out(tmp_path: Path) -> None:
    opened, signed = kit(tmp_path / "kits", "connects")
    (tmp_path / "a.whl").write_bytes(b"wheel")
    opened = replace(opened, wheels={"a.whl": KitWheel("0" * 64, 5, ("bookworm",))})
    packed = BytesIO()
    archive(opened, signed, {"a.whl": tmp_path / "a.whl"}, packed)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as tar:
        modes = {entry.name.partition("/")[2]: entry.mode for entry in tar}
    assert modes["device.key"] == 0o600
    assert modes["install.sh"] == 0o755
    own = {"agent.toml", "device.key", "edgestill-agent.service", "install.sh", "kit.json", "kit.sig"}
    assert set(modes) == {*own, "wheels/a.whl"}
