"""The doctor knows the board and names what is missing."""

from dataclasses import replace
from pathlib import Path

import pytest

from firmware_configs.boards import board
from firmware_configs.doctor import Facts, check_board, check_config, look
from firmware_configs.identity.ca import open_authority
from firmware_configs.identity.identities import make_tls
from firmware_configs.provision import authority_folder, provision
from tests.brokers import free_port
from tests.firmware_configs.brokers import Provisioned
from tests.firmware_configs.fleets import manifest

pytestmark = pytest.mark.light
PI = Facts(
    model="Raspberry Pi 4 Model B Rev 1.4",
    arch="arm64",
    system="Debian GNU/Linux 12 (bookworm)",
    memory_mb=3800,
    disk_free_mb=20_000,
    python=(3, 11),
    systemd=True,
    clock_synchronized=True,
    temperature_c=50.0,
    packages=frozenset({"torch", "brevitas", "onnxruntime", "numpy", "paho"}),
    board=board("rpi-4"),
)


def levels(facts: Facts) -> dict[str, str]:
    return {finding.what: finding.level for finding in check_board(facts) if finding.level != "ok"}


def test_a_board_is_read_from_its_own_files(tmp_path: Path) -> None:
    for name, text in {
        "proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0\0",
        "proc/meminfo": "MemTotal:        8245504 kB\nMemFree: 1 kB\n",
        "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
        "sys/class/thermal/thermal_zone0/temp": "48300\n",
        "run/systemd/timesync/synchronized": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "run/systemd/system").mkdir()
    facts = look(tmp_path)
    assert facts.board is board("rpi-5")
    assert (facts.memory_mb, facts.system, facts.temperature_c) == (8052, "Debian GNU/Linux 12 (bookworm)", 48.3)
    assert facts.systemd
    assert facts.clock_synchronized
    assert "numpy" in facts.packages


def test_a_folder_that_tells_nothing_is_no_error(tmp_path: Path) -> None:
    facts = look(tmp_path)
    assert (facts.model, facts.memory_mb, facts.systemd, facts.temperature_c) == ("", 0, False, None)


def test_nothing_is_said_against_a_good_board() -> None:
    assert levels(PI) == {}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"board": None}, {"board": "failure"}),
        ({"memory_mb": 900}, {"memory": "warning"}),
        ({"disk_free_mb": 400}, {"disk": "failure"}),
        ({"python": (3, 9)}, {"python": "failure"}),
        ({"packages": PI.packages - {"torch"}}, {"torch": "failure"}),
        ({"packages": PI.packages - {"paho"}}, {"packages": "failure"}),
        ({"packages": PI.packages - {"torch"}, "board": board("rpi-zero-2w")}, {}),
        ({"systemd": False}, {"systemd": "warning"}),
        ({"clock_synchronized": False}, {"clock": "warning"}),
        ({"temperature_c": 82.0}, {"temperature": "warning"}),
    ],
)
def test_what_is_missing_is_named(change: dict[str, object], expected: dict[str, str]) -> None:
    assert levels(replace(PI, **change)) == expected


@pytest.mark.broker
def test_a_kit_is_checked_up_to_its_broker(tmp_path: Path) -> None:
    port = free_port()
    made = manifest(tmp_path, provision=f"port = {port}")
    provision(made)
    config = made.out / "pi-01" / "agent.toml"
    absent = {finding.what: finding for finding in check_config(config)}
    assert absent["broker"].level == "failure"
    assert "refused" in absent["broker"].said
    assert absent["samples"].level == "failure"  # it lies on the board, not here
    assert {f.what for f in absent.values() if f.level == "ok"} == {
        *("config", "signing key", "aggregator's key", "certificate")
    }
    broker = Provisioned(tmp_path / "mosquitto", made.out)
    broker.port = port
    with broker:
        reached = {finding.what: finding for finding in check_config(config)}
    assert reached["broker"].level == "ok", reached["broker"].said


@pytest.mark.parametrize(("days", "level"), [(-0.1, "failure"), (29, "warning")])
def test_a_certificate_that_ends_is_told(tmp_path: Path, days: float, level: str) -> None:
    made = manifest(tmp_path, provision=f"port = {free_port()}")
    provision(made)
    with open_authority(authority_folder(made.out), "garden") as authority:
        tls = make_tls(authority, "pi-01", purpose="client", days=days)
    (made.out / "pi-01/tls/device.pem").write_bytes(tls.cert)
    found = {finding.what: finding for finding in check_config(made.out / "pi-01" / "agent.toml")}
    assert found["certificate"].level == level
    assert "provision --renew" in found["certificate"].said


def test_a_config_that_is_wrong_is_one_failure(tmp_path: Path) -> None:
    (finding,) = check_config(tmp_path / "agent.toml")
    assert (finding.level, finding.what) == ("failure", "config")
