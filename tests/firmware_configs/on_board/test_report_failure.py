"""What a board without edgestill tells its fleet: the reason, signed with its key, through a real broker with TLS."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from firmware_configs.on_board import report_failure
from firmware_configs.on_board.report_failure import next_number, reason_of, sealed
from tests.brokers import Mosquitto, free_port
from tests.certificates import Authority
from tests.transport.events import connected, wait_for
from transport.link import Link, Received
from wire.codec import decode_message
from wire.envelope import open_envelope
from wire.keys import generate_key, load_private_key, save_private_key
from wire.messages import Installing

SMALL = "312 MB are free in /opt, and the packages take 719 MB"
TOPIC = "edgestill/1/garden/pi-01/installing"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (
            f"edgestill: {SMALL}\nedgestill-firstboot.service: Main process exited, code=exited, status=1/FAILURE\n",
            SMALL,
        ),
        (
            "edgestill: installing what /x/py3.11.txt names\nERROR: Could not find a version\n"
            "ERROR: No matching distribution found for torch==2.7.1\n[notice] A new release\n",
            "No matching distribution found for torch==2.7.1",
        ),
        (
            "ERROR: of an earlier attempt\nedgestill: fetching\nuseradd: cannot lock /etc/passwd\n",
            "useradd: cannot lock /etc/passwd",
        ),
        (
            f"edgestill: {SMALL}\nedgestill: told 10.0.0.2: {SMALL}\nStarting edgestill-firstboot.service - Install\n"
            "edgestill: the fleet could not be told: no route\nedgestill: this board has no keys yet, so it is not\n",
            SMALL,
        ),
        ("Starting edgestill-firstboot.service - Install\n\n", "no reason in the log"),
        ("", "no reason in the log"),
        ("edgestill: \x1b[31mred\x1b[0m\ta  b", "?[31mred?[0m a b"),
        ("x" * 5000, "x" * 200),
    ],
)
def test_the_reason_is_the_line_that_tells_most(log: str, reason: str) -> None:
    assert reason_of(log) == reason


@pytest.mark.parametrize("reason", [SMALL, "é" * 200, "x"])
def test_the_aggregator_reads_what_the_script_has_written_without_edgestill(tmp_path: Path, reason: str) -> None:
    key = generate_key()
    save_private_key(key, tmp_path / "device.key")
    data = sealed(tmp_path / "device.key", "garden", "pi-01", 1794833912, reason)
    opened = open_envelope(
        data, public_key=key.public_key(), fleet="garden", sender="pi-01", kinds=("installing",), max_bytes=2000
    )
    assert opened.round == 0
    assert decode_message(opened.payload, Installing) == Installing(number=1794833912, reason=reason)


def test_the_number_increases_although_the_clock_goes_back(tmp_path: Path) -> None:
    path = tmp_path / "report-number"
    assert [next_number(path, now) for now in (100.7, 50.0, 101.0, 500.0, 2.0**40)] == [100, 101, 102, 500, 2**32 - 1]
    path.write_text("garbage")
    assert next_number(path, 7.0) == 7
    assert next_number(tmp_path / "no/such", 7.0) == 7  # a disk without room


def test_a_board_without_keys_says_so(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps({"fleet": "garden", "device": "pi-01", "host": "x", "port": 1}))
    done = run(tmp_path, SMALL)
    assert (done.returncode, done.stdout) == (0, "edgestill: this board has no keys yet, so its fleet is not told\n")


def run(kit: Path, log: str) -> subprocess.CompletedProcess[str]:
    """As the unit runs it: a Python that sees the standard library alone."""
    script = kit / "report_failure.py"
    script.write_bytes(Path(report_failure.__file__).read_bytes())
    command = [sys.executable, "-I", "-S", str(script)]
    return subprocess.run(command, input=log, capture_output=True, text=True, check=False, timeout=120, cwd=kit)


def make_kit(folder: Path, authority: Authority, port: int) -> Path:
    """The files of a kit that the script reads."""
    cert, key = authority.issue("pi-01")
    (folder / "tls").mkdir(parents=True)
    for name, path in {"ca.pem": authority.ca, "device.pem": cert, "device.key": key}.items():
        (folder / "tls" / name).write_bytes(path.read_bytes())
    save_private_key(generate_key(), folder / "device.key")
    facts = {"fleet": "garden", "device": "pi-01", "host": "127.0.0.1", "port": port}
    (folder / "report.json").write_text(json.dumps(facts))
    return folder


@pytest.mark.broker
def test_a_board_tells_why_its_installer_has_failed(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    with Mosquitto(tmp_path / "mosquitto", tls=authority) as broker:
        kit = make_kit(tmp_path / "kit", authority, broker.port)
        link = connected(Link(broker.config, client_id="aggregator", filters=[TOPIC]))
        for _ in range(2):
            done = run(kit, f"edgestill: {SMALL}\n")
            assert (done.returncode, done.stdout) == (0, f"edgestill: told 127.0.0.1: {SMALL}\n"), done.stderr
        reports = [wait_for(link, Received) for _ in range(2)]
        link.stop()
        assert not any(report.retained for report in reports)
        key = load_private_key(kit / "device.key").public_key()
        opened = [open_envelope(report.payload, public_key=key, fleet="garden") for report in reports]
        first, second = (decode_message(envelope.payload, Installing) for envelope in opened)
        assert (first.reason, second.reason) == (SMALL, SMALL)
        assert second.number > first.number


@pytest.mark.broker
def test_a_broker_of_another_authority_is_told_nothing(tmp_path: Path) -> None:
    with Mosquitto(tmp_path / "mosquitto", tls=Authority(tmp_path / "others")) as broker:
        kit = make_kit(tmp_path / "kit", Authority(tmp_path / "ca"), broker.port)
        done = run(kit, SMALL)
    assert done.returncode == 1
    assert "certificate verify failed" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_a_network_or_a_key_it_ends_with_one_line(tmp_path: Path) -> None:
    kit = make_kit(tmp_path / "kit", Authority(tmp_path / "ca"), free_port())
    done = run(kit, SMALL)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "refused" in done.stderr
    (kit / "device.key").write_text("not a key")
    done = run(kit, SMALL)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.startswith("edgestill: the fleet could not be told: openssl does not sign: ")
    (kit / "report.json").write_text("[]")
    done = run(kit, SMALL)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
