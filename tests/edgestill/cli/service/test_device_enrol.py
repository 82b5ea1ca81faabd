"""`edgestill device approve`."""

import json
from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.storage.journal import Journal
from tests.edgestill.cli.typed import run
from tests.firmware_configs.fleets import FLEET, PI, write_manifest

pytestmark = pytest.mark.light

DEVICES = FLEET + '[devices]\nkeys_dir = "kits/_fleet/devices"\n'


def test_boards_that_ask_are_listed_and_turned_down(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = write_manifest(tmp_path, PI + 'enrol = "approve"\n', fleet=DEVICES)
    _, out, _ = run(capsys, "provision", path)
    assert "will create their own keys; then run `edgestill device approve`: pi-01 pi-02\n" in out
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
    assert json.loads(command.argument)["reason"] == "refused by the operator"
    code, _, err = run(capsys, "device", "approve", "pi-02", "--config", path)
    assert (code, "'pi-02' has no pending request" in err, err.count("\n")) == (3, True, 1)
    code, _, err = run(capsys, "device", "approve", "pi-02", "--watch", "--config", path)
    assert code == 3


@pytest.mark.parametrize("more", [["pi-01"], ["--refuse"], ["--fingerprint", "0123"]])
def test_watching_decides_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture, more: list[str]) -> None:
    path = write_manifest(tmp_path, PI + 'enrol = "claim"\n', fleet=FLEET)
    code, _, err = run(capsys, "device", "approve", *more, "--watch", "--config", path)
    assert (code, err.count("\n")) == (3, 1)
    assert "--watch approves all requests; remove DEVICE, --refuse and --fingerprint" in err


def test_without_groups_the_folder_of_the_kits_must_be_given(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = write_manifest(tmp_path, "", fleet=FLEET)
    path.write_text(FLEET)
    code, _, err = run(capsys, "device", "approve", "pi-01", "--config", path)
    assert (code, "give the folder of the kits with --kits" in err) == (3, True)
