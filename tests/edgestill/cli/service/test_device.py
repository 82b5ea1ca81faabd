"""`edgestill device list` and `revoke`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography import x509

from aggregator.config.fleet import load_fleet_config
from aggregator.storage.journal import Journal
from tests.aggregator.scripted import write_fleet
from tests.edgestill.cli.typed import run
from tests.firmware_configs.fleets import FLEET as MANIFEST
from tests.firmware_configs.fleets import PI, write_manifest
from transport.config import BrokerConfig


def test_devices_of_the_config_are_listed_even_if_never_heard_of(config: Path, capsys: pytest.CaptureFixture) -> None:
    _, out, _ = run(capsys, "device", "list", "--config", config, "--json")
    assert [(d["id"], d["status"], d["accepted"]) for d in json.loads(out)] == [
        ("pi-0", "online", 1),
        ("pi-1", "unknown", 0),
    ]
    _, out, _ = run(capsys, "device", "list", "--config", config)
    assert "pi-1" in out


DEVICES = MANIFEST + '[devices]\nkeys_dir = "kits/_fleet/devices"\n'


def test_a_revoked_device_is_refused_by_the_aggregator_and_in_the_brokers_list(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = write_manifest(tmp_path, fleet=DEVICES)
    run(capsys, "provision", path)
    cert = x509.load_pem_x509_certificate((tmp_path / "kits/pi-01/tls/device.pem").read_bytes())
    loaded = load_fleet_config(path, environ={})
    loaded.state.mkdir()
    Journal(loaded.state / "journal.db").close()
    code, out, err = run(capsys, "device", "revoke", "pi-01", "--config", path)
    assert code == 0, err
    assert "1 certificates revoked; on the broker: edgestill broker install --from " in out
    crl = x509.load_pem_x509_crl((tmp_path / "kits/_fleet/broker/crl.pem").read_bytes())
    assert [entry.serial_number for entry in crl] == [cert.serial_number]
    code, out, _ = run(capsys, "device", "revoke", "pi-01", "--undo", "--config", path)
    assert code == 0
    assert "--renew pi-01" in out


def test_the_claim_of_a_card_that_was_lost_before_its_first_boot_is_revoked(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = write_manifest(tmp_path, PI + 'enrol = "claim"\n', fleet=DEVICES)
    run(capsys, "provision", path)
    state = load_fleet_config(path, environ={}).state
    state.mkdir()
    Journal(state / "journal.db").close()
    code, out, err = run(capsys, "device", "revoke", "pi-01", "--config", path)
    assert code == 0, err
    assert "1 certificates revoked" in out
    claim = x509.load_pem_x509_certificate((tmp_path / "kits/pi-01/tls/claim.pem").read_bytes())
    crl = x509.load_pem_x509_crl((tmp_path / "kits/_fleet/broker/crl.pem").read_bytes())
    assert [entry.serial_number for entry in crl] == [claim.serial_number]
    assert run(capsys, "device", "revoke", "pi-09", "--config", path)[0] == 3


def test_an_unknown_device_is_refused_before_anything_is_asked(config: Path, capsys: pytest.CaptureFixture) -> None:
    code, _, err = run(capsys, "device", "revoke", "pi-00", "--config", config)
    assert (code, err.count("\n")) == (3, 1)
    assert "no device 'pi-00'" in err
    assert Journal(load_fleet_config(config).state / "journal.db").commands() == []


def test_before_the_first_start_the_devices_of_the_config_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = write_fleet(tmp_path, BrokerConfig(), ["pi-1", "pi-0"])
    _, out, _ = run(capsys, "device", "list", "--config", path, "--json")
    assert [(d["id"], d["status"]) for d in json.loads(out)] == [("pi-0", "unknown"), ("pi-1", "unknown")]
    code, out, err = run(capsys, "device", "list", "--config", path)
    assert (code, err) == (0, "")
    assert "pi-1" in out


def test_one_device_is_shown_a_fact_a_line(config: Path, capsys: pytest.CaptureFixture) -> None:
    journal = Journal(load_fleet_config(config).state / "journal.db")
    journal.note_device("pi-0", board="a board\nfleet f: all is well")
    code, out, _ = run(capsys, "device", "show", "pi-0", "--config", config)
    lines = {line.split()[0]: line.split(maxsplit=1)[1:] for line in out.splitlines()}
    assert (code, lines["id"], lines["examples"], lines["status"]) == (0, ["pi-0"], ["120"], ["online"])
    assert "fleet" not in lines, "what a device says begins no line"
    code, _, err = run(capsys, "device", "show", "pi-9", "--config", config)
    assert (code, "no device 'pi-9'" in err) == (3, True)
