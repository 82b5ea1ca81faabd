"""The aggregator as a service: its unit is written, checked by systemd, and its command runs as systemd runs it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.services.aggregator import install_aggregator, uninstall_aggregator
from firmware_configs.services.readable import find_account
from tests.aggregator.running import wait_until
from tests.aggregator.scripted import write_fleet
from tests.brokers import free_port
from tests.firmware_configs.kits.test_unit import analyze, needs_systemd
from transport.config import BrokerConfig
from transport.embedded import EmbeddedBroker

USER = find_account(os.geteuid()).name


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_fleet(tmp_path, BrokerConfig(), ["a"])


def unit_of(root: Path, name: str = "test-fleet") -> Path:
    return root / f"etc/systemd/system/edgestill-aggregator-{name}.service"


@needs_systemd
def test_the_unit_is_written_below_the_root_and_systemd_takes_it(config: Path, tmp_path: Path) -> None:
    done = install_aggregator(config, user=USER, root=tmp_path / "root")
    assert done.unit == unit_of(tmp_path / "root")
    assert done.said == [
        f"wrote {done.unit}: fleet test-fleet as user {USER}",
        "start it, now and at every boot: sudo systemctl enable --now edgestill-aggregator-test-fleet",
        "its log: journalctl -u edgestill-aggregator-test-fleet",
    ]
    verified = analyze("verify", str(done.unit))
    assert (verified.returncode, verified.stderr) == (0, "")
    text = done.unit.read_text()
    assert f"ReadWritePaths={tmp_path}/state\n" in text
    assert re.search(rf"^ExecStart=/\S+/edgestill aggregator serve --config {config}$", text, re.MULTILINE)
    assert (tmp_path / "state").is_dir(), "it has to be there before the service starts"
    again = install_aggregator(config, user=USER, root=tmp_path / "root")
    assert again.said[1] == "restart it: sudo systemctl restart edgestill-aggregator-test-fleet"


def test_a_dry_run_writes_nothing(config: Path, tmp_path: Path) -> None:
    done = install_aggregator(config, user=USER, root=tmp_path / "root", dry_run=True)
    assert done.said == [f"would write {unit_of(tmp_path / 'root')}"]
    assert done.text.startswith("[Unit]\n")
    assert not (tmp_path / "root").exists()
    assert not (tmp_path / "state").exists()


def test_uninstalling_removes_the_unit_and_leaves_the_state(config: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"test-fleet is not installed as a service$"):
        uninstall_aggregator(config, root=tmp_path)
    install_aggregator(config, user=USER, root=tmp_path)
    assert uninstall_aggregator(config, root=tmp_path, dry_run=True).said == [f"would remove {unit_of(tmp_path)}"]
    done = uninstall_aggregator(config, root=tmp_path)
    assert done.said[0] == f"removed {unit_of(tmp_path)}"
    assert not unit_of(tmp_path).exists()
    assert (tmp_path / "state").is_dir()


def test_the_unit_of_another_file_is_not_replaced(config: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = write_fleet(tmp_path / "other", BrokerConfig(), ["a"])
    install_aggregator(config, user=USER, root=tmp_path)
    before = unit_of(tmp_path).read_text()
    for command in (
        lambda: install_aggregator(other, user=USER, root=tmp_path),
        lambda: uninstall_aggregator(other, root=tmp_path),
    ):
        with pytest.raises(
            ConfigError, match=rf"is that of {config}; uninstall it first, or give another \[fleet\] id$"
        ):
            command()
    assert unit_of(tmp_path).read_text() == before


def test_what_the_user_cannot_read_is_named_before_anything_is_written(config: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^there is no user 'nobody-here'; make it"):
        install_aggregator(config, user="nobody-here", root=tmp_path)
    with pytest.raises(ConfigError, match=r"user nobody cannot read it; give it to that user, or another --user$"):
        install_aggregator(config, user="nobody", root=tmp_path)  # pytest's folders are their owner's alone
    assert not (tmp_path / "etc").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="root's files are root's")
def test_a_service_never_runs_as_root_by_default(config: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"key is root's; give --user NAME, who can read it: a service needs no root$"
    ):
        install_aggregator(config, root=tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_of_the_key_is_the_default_user_and_gets_the_state_folder() -> None:
    with tempfile.TemporaryDirectory(prefix="edgestill-service-") as name:
        folder = Path(name)
        config = write_fleet(folder, BrokerConfig(), ["a"])
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, "daemon", "daemon")
        folder.chmod(0o700)
        done = install_aggregator(config, root=folder / "root")
        assert "User=daemon\nGroup=daemon\n" in done.text
        assert ((folder / "state").owner(), (folder / "state").stat().st_mode & 0o777) == ("daemon", 0o700)


class Systemd:
    """What systemd is for a service of Type=notify: a socket that hears what the service says."""

    def __init__(self, unit: Path) -> None:
        text = unit.read_text()
        self.command = shlex.split(re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)[0])
        self.reload = re.findall(r"^ExecReload=(.*)$", text, re.MULTILINE)[0]
        self.folder = Path(tempfile.mkdtemp(prefix="notify-"))
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.folder / "socket"))
        self.socket.setblocking(False)
        self.log = self.folder / "log"
        self.said: list[str] = []

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        environment = {
            "PATH": os.environ["PATH"],
            "NOTIFY_SOCKET": str(self.folder / "socket"),
            "WATCHDOG_USEC": "200000",
        }
        with self.log.open("wb") as log:
            process = subprocess.Popen(self.command, env=environment, cwd="/", stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            self.socket.close()
            shutil.rmtree(self.folder)

    def heard(self, word: str) -> bool:
        while True:
            try:
                self.said.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return word in self.said

    def until(self, word: str) -> None:
        wait_until(lambda: self.heard(word), 120, lambda: self.log.read_text()[-3000:])


def ready_fleet(folder: Path, port: int, name: str) -> Systemd:
    """A fleet that is installed as a service, and not yet started."""
    folder.mkdir()
    metrics = f'metrics = "127.0.0.1:{free_port()}"'
    config = write_fleet(folder, BrokerConfig(port=port), ["a"], monitor=metrics)
    config.write_text(config.read_text().replace("test-fleet", name))
    return Systemd(install_aggregator(config, user=USER, root=folder).unit)


@pytest.mark.slow
def test_two_installed_aggregators_run_side_by_side_and_do_what_their_units_say(tmp_path: Path) -> None:
    """Slow: two services, which import torch in their workers to make the first models."""
    with EmbeddedBroker() as broker, ExitStack() as stack:
        fleets = {name: ready_fleet(tmp_path / name, broker.port, name) for name in ("garden", "roof")}
        running = {name: stack.enter_context(fleet.running()) for name, fleet in fleets.items()}
        for name, fleet in fleets.items():
            fleet.until("READY=1")
            fleet.until("WATCHDOG=1")
            wait_until(lambda state=tmp_path / name / "state": (state / "status.json").exists(), 120)
        for name, fleet in fleets.items():
            assert fleet.reload == "/bin/kill -HUP $MAINPID"
            subprocess.run(["sh", "-c", fleet.reload], env={"MAINPID": str(running[name].pid)}, check=True)
            wait_until(lambda log=fleet.log: "was read again" in log.read_text(), 120)
            assert running[name].poll() is None
        for name, process in running.items():
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0, fleets[name].log.read_text()[-3000:]
            assert fleets[name].heard("STOPPING=1")
