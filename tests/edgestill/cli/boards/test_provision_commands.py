"""`edgestill provision`, `kit`, `board`, `doctor`, and what `config check` and `device revoke` do for manifests."""

import json
from pathlib import Path

import pytest
from cryptography import x509

from aggregator.config.fleet import load_fleet_config
from aggregator.storage.journal import Journal
from edgestill.cli.main import main
from tests.firmware_configs.fleets import FLEET, PI, write_manifest, write_secrets

pytestmark = pytest.mark.light
DEVICES = FLEET + '[devices]\nkeys_dir = "kits/_fleet/devices"\n'


def run(capsys: pytest.CaptureFixture, *args: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        main([str(arg) for arg in args])
    out, err = capsys.readouterr()
    return done.value.code, out, err


def test_a_manifest_is_checked_provisioned_and_its_kits_verify(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    write_secrets(tmp_path)
    path = write_manifest(tmp_path, PI + 'wifi = "home"\n', fleet=DEVICES, provision='secrets = "secrets.toml"')
    code, out, err = run(capsys, "config", "check", path, "--json")
    assert code == 0, err
    assert "once `edgestill provision` has made" in err
    facts = json.loads(out)
    assert set(facts) == {"provision", "device pi-01", "device pi-02"}
    assert (facts["device pi-01"]["wifi"], facts["device pi-01"]["train.threads"]) == ("IEEE", 3)
    code, made, err = run(capsys, "provision", path)
    assert (code, err) == (0, "")
    assert "made: pi-01 pi-02\n" in made
    assert "password" not in out + made
    assert [line for line in made.splitlines() if line.startswith("keep ")]
    code, out, _ = run(capsys, "provision", path, "--renew", "pi-02", "--json")
    again = json.loads(out)
    assert (again["kept"], again["renewed"], again["made"]) == (["pi-01"], ["pi-02"], [])
    code, out, err = run(capsys, "config", "check", path, "--json")
    assert (code, err) == (0, "")
    assert set(json.loads(out)) > {"fleet", "round", "devices", "device pi-02"}
    for key in ([], ["--key", again["kit_key"]], ["--key", tmp_path / "kits/fleet-kit.pub"]):
        code, out, _ = run(capsys, "kit", "verify", tmp_path / "kits/pi-01", *key)
        assert code == 0
        assert out.startswith("pi-01 of garden, rpi-4 (bookworm cloud-init)")


def test_a_kit_that_was_changed_does_not_verify(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run(capsys, "provision", write_manifest(tmp_path), "--out", tmp_path / "elsewhere")
    kit = tmp_path / "elsewhere" / "pi-01"
    code, out, _ = run(capsys, "kit", "verify", kit, "--json")
    assert (code, json.loads(out)["files"]) == (0, 12)
    (kit / "agent.toml").write_text("")
    code, _, err = run(capsys, "kit", "verify", kit)
    assert code == 5
    assert "agent.toml is not the file that was signed" in err
    code, _, err = run(capsys, "kit", "verify", kit, "--key", "0" * 64)
    assert code == 5
    code, _, err = run(capsys, "kit", "verify", tmp_path / "nowhere" / "pi-01")
    assert (code, err.count("\n")) == (3, 1)
    assert err.startswith(f"edgestill: kit {tmp_path}/nowhere/pi-01: there is no such folder")


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


def test_boards_are_listed_and_shown(capsys: pytest.CaptureFixture) -> None:
    _, out, _ = run(capsys, "board", "list")
    assert "rpi-zero-2w" in out
    assert "jetson-orin-nano" in out
    _, out, _ = run(capsys, "board", "list", "--json")
    assert len(json.loads(out)) == 9
    _, out, _ = run(capsys, "board", "show", "rpi-5")
    assert "os           bookworm cloud-init\n" in out
    code, _, err = run(capsys, "board", "show", "rpi-6")
    assert code == 3
    assert "no board 'rpi-6'; did you mean" in err


def test_the_doctor_tells_of_this_machine_and_of_a_config(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    code, out, _ = run(capsys, "doctor", "--config", tmp_path / "agent.toml", "--json")
    facts = json.loads(out)
    assert code == 1
    assert {"level": "failure", "what": "config"}.items() <= facts["findings"][-1].items()
    assert {"memory", "disk", "python"} <= {finding["what"] for finding in facts["findings"]}
    _, out, _ = run(capsys, "doctor")
    assert "python: 3." in out


def test_boards_that_ask_are_listed_and_turned_down(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = write_manifest(tmp_path, PI + 'enrol = "approve"\n', fleet=DEVICES)
    _, out, _ = run(capsys, "provision", path)
    assert "will make their own keys; then `edgestill device approve`: pi-01 pi-02\n" in out
    _, out, _ = run(capsys, "kit", "verify", tmp_path / "kits/pi-01", "--json")
    assert "claim_until" in json.loads(out)
    state = load_fleet_config(path, environ={}).state
    state.mkdir()
    journal = Journal(state / "journal.db")
    journal.put("enrol:pi-01", json.dumps({"keys": "0123456789" * 6 + "abcd", "status": "waiting", "asked": 0.0}))
    journal.close()
    _, out, _ = run(capsys, "device", "approve", "--config", path)
    assert "0123 4567 8901 2345 6789" in out
    _, out, _ = run(capsys, "device", "approve", "--config", path, "--json")
    assert [(found["device"], found["status"]) for found in json.loads(out)] == [("pi-01", "waiting")]
    code, out, _ = run(capsys, "device", "approve", "pi-01", "--refuse", "--config", path)
    assert code == 0
    assert "it will enrol when it starts" in out
    (command,) = Journal(state / "journal.db").commands()
    assert json.loads(command.argument)["reason"] == "the operator has refused it"
    code, _, err = run(capsys, "device", "approve", "pi-02", "--config", path)
    assert (code, "'pi-02' has not asked" in err, err.count("\n")) == (3, True, 1)
    code, _, err = run(capsys, "device", "approve", "pi-02", "--watch", "--config", path)
    assert code == 3


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
