"""`edgestill broker` as a person, or a script, starts and stops it."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from firmware_configs.use_cases.provision_fleet import provision_fleet
from tests.edgestill.cli.typed import run
from tests.firmware_configs.fleets import write_manifest
from tests.transport.events import wait_for
from transport.config import BrokerConfig
from transport.link import Connected, Link, Received

pytest.importorskip("amqtt")


@contextmanager
def running(*args: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "edgestill", "broker", *args]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=120)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_tells_its_port_serves_and_stops_cleanly(number: signal.Signals) -> None:
    with running("--port", "0", "--json") as process:
        assert process.stdout is not None
        facts = json.loads(process.stdout.readline())
        assert facts["host"] == "127.0.0.1"
        with Link(BrokerConfig(port=facts["port"]), client_id="a", filters=["t"]) as link:
            wait_for(link, Connected)
            assert link.publish("t", b"x")
            assert wait_for(link, Received).payload == b"x"
        process.send_signal(number)
        assert process.wait(120) == 0
        assert process.communicate()[1] == ""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", facts["port"]), timeout=2)


def test_it_says_that_it_is_for_demos_and_what_it_lacks() -> None:
    with running("--port", "0") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("broker on 127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        text = process.communicate(timeout=120)[1]
        assert "demos on this machine only" in text
        assert "MQTT 5" in text


def test_other_machines_are_refused_in_one_line() -> None:
    with running("--host", "0.0.0.0") as process:
        _, text = process.communicate(timeout=120)
    assert process.returncode == 3
    assert text == (
        "edgestill: the embedded broker listens on loopback only, not on '0.0.0.0'; run Mosquitto instead\n"
    )


def test_a_taken_port_is_told_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with running("--port", str(port)) as process:
            _, text = process.communicate(timeout=120)
    assert process.returncode == 8
    assert text == f"edgestill: embedded broker: cannot listen on 127.0.0.1:{port}: address already in use\n"


def test_the_files_of_a_fleet_are_installed_by_its_fleet_toml(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, to = write_manifest(tmp_path / "fleet", provision='wheels = "none"'), tmp_path / "mosquitto"
    provision_fleet(file)
    to.mkdir()
    (to / "mosquitto.conf").write_text(f"include_dir {to}/conf.d\n")
    how = ("--to", to, "--form", "2.0", "--no-try", "--dry-run", "--json")
    code, text, err = run(capsys, "broker", "install", "--config", file, *how)
    assert (code, err) == (0, "")
    assert json.loads(text)["from"] == str(tmp_path / "fleet/kits/_fleet/broker")
    monkeypatch.chdir(tmp_path / "fleet")
    assert run(capsys, "broker", "install", *how)[0] == 0  # kits/ of this folder
    (tmp_path / "bare.toml").write_text('[fleet]\nid = "a"\n')
    code, _, err = run(capsys, "broker", "install", "--config", tmp_path / "bare.toml", *how)
    assert (code, err.count("\n")) == (3, 1)
    assert "give --from, or a provisioned fleet.toml" in err


def test_a_service_of_a_fleet_is_installed_and_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_manifest(tmp_path / "fleet", provision='wheels = "none"')
    provision_fleet(file)
    to, units = tmp_path / "etc", tmp_path / "units"
    (to / "conf.d").mkdir(parents=True)
    units.mkdir()
    how = ["--to", to, "--units", units]
    install = [*how, "--owner", "", "--form", "2.0", "--no-try", "--mosquitto", "/bin/true", "--config", file]
    code, _, err = run(capsys, "broker", "install", *install)
    assert (code, err) == (3, "edgestill: --units requires --service\n")
    code, text, err = run(capsys, "broker", "install", *install, "--service")
    assert (code, err) == (0, "")
    assert "sudo systemctl enable --now edgestill-broker-garden" in text
    code, text, _ = run(capsys, "broker", "uninstall", *how, "--config", file, "--json")
    assert (code, json.loads(text)["fleet"], list(units.iterdir())) == (0, "garden", [])
    code, _, err = run(capsys, "broker", "uninstall", *how, "--config", file)
    assert (code, err.count("\n")) == (3, 1)
