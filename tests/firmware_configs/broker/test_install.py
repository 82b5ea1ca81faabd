"""The broker's files arrive where Mosquitto reads them, with an owner that it can read them as."""

import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.broker.install import FILES, InstallOptions, install_broker
from firmware_configs.identity.ca import open_authority
from firmware_configs.manifest import Manifest
from firmware_configs.provision import authority_folder, provision, publish_revocations
from tests.brokers import MOSQUITTO, free_port
from tests.firmware_configs.fleets import FLEET, manifest
from tests.transport.events import connected, eventually, wait_for
from transport.config import BrokerConfig, TlsConfig
from transport.link import Disconnected, Link

pytestmark = [pytest.mark.light, pytest.mark.broker]
USER = "mosquitto"


def can_be_another() -> bool:
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return False
    return os.geteuid() == 0 and MOSQUITTO is not None


@pytest.fixture
def etc() -> Iterator[Path]:
    """What /etc/mosquitto is on a Debian: a folder that everybody may look into, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="edgestill-broker-"))
    folder.chmod(0o755)
    (folder / "conf.d").mkdir()
    (folder / "run").mkdir()
    if can_be_another():
        shutil.chown(folder / "run", USER)
    (folder / "mosquitto.conf").write_text(f"pid_file {folder}/run/pid\ninclude_dir {folder}/conf.d\n")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def made(tmp_path: Path) -> Manifest:
    fleet = FLEET + f"\n[broker]\nhost = '127.0.0.1'\nport = {free_port()}\n"
    found = manifest(tmp_path, fleet=fleet)
    provision(found)
    return found


def files_of(made: Manifest) -> Path:
    return made.out / "_fleet" / "broker"


def device(made: Manifest, name: str = "pi-01") -> Link:
    tls = made.out / name / "tls"
    config = TlsConfig(ca=tls / "ca.pem", cert=tls / "device.pem", key=tls / "device.key")
    return Link(BrokerConfig(port=made.port, tls=config, keepalive_s=5), client_id=name, filters=[])


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def mosquitto(etc: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """As a service: started as root with the main configuration, it becomes its own user."""
    assert MOSQUITTO is not None
    with (etc / "log").open("w") as log:
        process = subprocess.Popen([MOSQUITTO, "-c", str(etc / "mosquitto.conf")], stderr=log, text=True)
    try:
        assert eventually(lambda: process.poll() is not None or listens(port))
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(120)


@pytest.mark.skipif(not can_be_another(), reason="only root starts a Mosquitto that becomes another user")
def test_mosquitto_starts_as_its_own_user_and_a_provisioned_device_connects(made: Manifest, etc: Path) -> None:
    # as it was: copied by hand, the key is root's
    shutil.copytree(files_of(made), etc / "edgestill")
    (etc / "edgestill").chmod(0o755)
    conf = (files_of(made) / "mosquitto-2.0.conf").read_text().replace("/etc/mosquitto", str(etc))
    (etc / "conf.d" / "edgestill.conf").write_text(conf)
    with mosquitto(etc, made.port) as refusing:
        assert refusing.wait(120) != 0
    assert "Unable to load server key file" in (etc / "log").read_text()
    said = install_broker(files_of(made), InstallOptions(to=etc, program=Path(MOSQUITTO or "")))
    assert "restart Mosquitto" in said.lines[-1]
    key = etc / "edgestill" / "broker.key"
    assert (key.owner(), stat.S_IMODE(key.stat().st_mode)) == (USER, 0o600)
    assert (etc / "edgestill.before" / "broker.key").exists()
    with mosquitto(etc, made.port) as running:
        assert running.poll() is None
        assert f"Uid:\t{pwd.getpwnam(USER).pw_uid}" in Path(f"/proc/{running.pid}/status").read_text()
        connected(device(made)).stop()
        # a device is revoked: the same command, and the running broker refuses it
        with open_authority(authority_folder(made.out), "garden") as authority:
            authority.revoke("pi-01")
            authority.save()
            publish_revocations(made.out, authority)
        said = install_broker(files_of(made), InstallOptions(to=etc, program=Path(MOSQUITTO or "")))
        assert said.lines[-1] == f"Mosquitto (process {running.pid}) has read them again"
        assert eventually(lambda: refused(made, "pi-01"), 120)
        connected(device(made, "pi-02")).stop()
    assert len(list(etc.glob(".edgestill-*"))) == 1  # the former files are gone


def refused(made: Manifest, name: str) -> bool:
    with device(made, name) as link:
        try:
            return "revoked" in wait_for(link, Disconnected, 10).reason
        except AssertionError:
            return False


@pytest.mark.skipif(not can_be_another(), reason="only root starts a Mosquitto that becomes another user")
def test_files_that_mosquitto_does_not_start_with_change_nothing(made: Manifest, etc: Path) -> None:
    options = InstallOptions(to=etc, program=Path(MOSQUITTO or ""))
    install_broker(files_of(made), options)
    before = {path.name: path.read_bytes() for path in (etc / "edgestill").iterdir()}
    (files_of(made) / "crl.pem").write_text("no list\n")
    with pytest.raises(ConfigError, match=r"does not start with these files, nothing was changed: .*crl"):
        install_broker(files_of(made), options)
    assert {path.name: path.read_bytes() for path in (etc / "edgestill").iterdir()} == before
    assert len(list(etc.glob(".edgestill-*"))) == 1


def for_elsewhere(etc: Path, seen: str | None = None, *, dry_run: bool = False) -> InstallOptions:
    """Options with which nobody has to be root, and no Mosquitto is here."""
    as_seen = None if seen is None else Path(seen)
    return InstallOptions(to=etc, seen=as_seen, owner="", form="2.1", trial=False, dry_run=dry_run)


def test_options_are_the_words_of_the_script() -> None:
    assert InstallOptions().words() == ["--to", "/etc/mosquitto", "--owner", "mosquitto:mosquitto"]
    every = InstallOptions(
        to=Path("/a"),
        seen=Path("/b"),
        owner="",
        form="2.1",
        plugin=Path("/c.so"),
        program=Path("/d"),
        trial=False,
        reload=False,
        dry_run=True,
    )
    assert " ".join(every.words()) == (
        "--to /a --as /b --owner  --form 2.1 --plugin /c.so --mosquitto /d --no-try --no-reload --dry-run"
    )


def test_files_for_a_container_name_the_folder_that_it_sees(made: Manifest, etc: Path) -> None:
    (etc / "mosquitto.conf").write_text("include_dir /mosquitto/config/conf.d\n")
    install_broker(files_of(made), for_elsewhere(etc, "/mosquitto/config"))
    conf = (etc / "conf.d" / "edgestill.conf").read_text()
    assert "keyfile /mosquitto/config/edgestill/broker.key" in conf
    assert "/etc/mosquitto" not in re.sub(r"^#.*", "", conf, flags=re.MULTILINE)
    assert {path.name for path in (etc / "edgestill").iterdir()} >= set(FILES)


def test_the_script_in_the_folder_does_the_same_where_there_is_no_edgestill(made: Manifest, etc: Path) -> None:
    script = files_of(made) / "install.sh"
    done = subprocess.run(["sh", str(script), *for_elsewhere(etc).words()], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (etc / "edgestill" / "broker.key").read_bytes() == (files_of(made) / "broker.key").read_bytes()


def test_a_dry_run_changes_nothing(made: Manifest, etc: Path) -> None:
    (line,) = install_broker(files_of(made), for_elsewhere(etc, dry_run=True)).lines
    assert line.startswith("would install")
    assert sorted(path.name for path in etc.iterdir()) == ["conf.d", "mosquitto.conf", "run"]


def test_what_is_wrong_is_told_before_anything_changes(made: Manifest, etc: Path, tmp_path: Path) -> None:
    (etc / "mosquitto.conf").write_text("listener 1883\n")
    with pytest.raises(ConfigError, match=r"does not include .*/conf\.d; add the line: include_dir "):
        install_broker(files_of(made), for_elsewhere(etc))
    with pytest.raises(ConfigError, match="no such folder"):
        install_broker(tmp_path / "nothing", for_elsewhere(etc))
    with pytest.raises(ConfigError, match="there is no folder"):
        install_broker(files_of(made), for_elsewhere(tmp_path / "no-mosquitto"))
    with pytest.raises(ConfigError, match="only letters, digits"):
        install_broker(files_of(made), for_elsewhere(etc, "/a;b"))
    shutil.copy(made.out / "pi-01" / "tls" / "device.key", files_of(made) / "broker.key")
    with pytest.raises(ConfigError, match=r"broker\.key is not the key of broker\.pem"):
        install_broker(files_of(made), for_elsewhere(etc))
    assert sorted(path.name for path in etc.iterdir()) == ["conf.d", "mosquitto.conf", "run"]
