"""`edgestill device update`."""

import json
from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.storage.journal import Journal
from core.errors import ConfigError
from edgestill import __version__
from edgestill.cli.service.device_update import seconds_of
from firmware_configs.manifest import load_manifest
from firmware_configs.provision import provision
from tests.edgestill.cli.typed import run
from tests.firmware_configs.fleets import FLEET, PI, write_manifest

pytestmark = pytest.mark.light
DEVICES = FLEET + '[devices]\nkeys_dir = "kits/_fleet/devices"\n'
ROLLOUT = {
    "bundle": "b" * 64,
    "size": 2_500_000,
    "number": 7,
    "version": "0.3.0",
    "devices": ["pi-01", "pi-02"],
    "canary": 1,
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet.toml with kits and a journal without devices."""
    found = write_manifest(tmp_path_factory.mktemp("fleet"), PI, fleet=DEVICES)
    provision(load_manifest(found, environ={}))
    state = load_fleet_config(found, environ={}).state
    state.mkdir()
    Journal(state / "journal.db").close()
    return found


def journal_of(path: Path) -> Journal:
    return Journal(load_fleet_config(path, environ={}).state / "journal.db")


def test_a_group_is_offered_this_machines_version(path: Path, capsys: pytest.CaptureFixture) -> None:
    code, out, err = run(
        capsys, "device", "update", "--to", __version__, "--group", "pi", "--canary", "1", "--wait", "1h", "-c", path
    )
    assert code == 0, err
    assert f"edgestill {__version__}+k" in out
    assert "with 1 wheels" in out
    assert "offered to 2 devices, first pi-01, the others 60.0 min later" in out
    code, out, _ = run(capsys, "device", "update", "pi-02", "--to", __version__, "--dry-run", "--json", "-c", path)
    assert (code, json.loads(out)["devices"], json.loads(out)["answer"]) == (0, ["pi-02"], "")


def test_how_far_it_is(path: Path, capsys: pytest.CaptureFixture) -> None:
    _, out, _ = run(capsys, "device", "update", "--status", "-c", path)
    assert out == "no update was ever offered\n"
    journal = journal_of(path)
    journal.put("rollout", json.dumps({**ROLLOUT, "stopped": "pi-01: went back: it ended"}))
    told = {"number": 7, "phase": "back", "version": "0.2.0", "reason": "it ended", "time": 1.0}
    journal.put("upgraded:pi-01", json.dumps(told))
    journal.put("software:pi-01", json.dumps({"version": "0.2.0+k1", "upgrades": "1"}))
    for device in ("pi-01", "pi-02"):
        journal.note_device(device, status="online")
    journal.close()
    _, out, _ = run(capsys, "device", "update", "--status", "-c", path)
    lines = out.splitlines()
    assert lines[0] == "edgestill 0.3.0, 2.5 MB: 1 back, 1 withdrawn"
    assert lines[1] == "stopped: pi-01: went back: it ended"
    assert "back, canary" in out
    _, out, _ = run(capsys, "device", "update", "--status", "--json", "-c", path)
    assert [row["stage"] for row in json.loads(out)["devices"]] == ["back", "withdrawn"]
    _, out, _ = run(capsys, "device", "list", "-c", path)
    assert "pi-01" in out
    assert "0.2.0" in out
    _, out, _ = run(capsys, "status", "-c", path)
    assert "update to 0.3.0: 1 back, 1 withdrawn" in out


def test_it_is_ended_by_a_command(path: Path, capsys: pytest.CaptureFixture) -> None:
    code, out, _ = run(capsys, "device", "update", "--abort", "-c", path)
    assert (code, "abort" in out) == (0, True)


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--status", "--abort"],
        ["--status", "pi-01"],
        ["--to", "99", "--status"],
        ["--to", __version__],
        ["--to", __version__, "--all", "pi-01"],
        ["--to", __version__, "--all", "--wait", "soon"],
        ["--to", __version__, "--group", "nobody"],
        ["--to", "99", "--all"],
    ],
)
def test_what_makes_no_sense_is_a_line(path: Path, capsys: pytest.CaptureFixture, more: list[str]) -> None:
    code, _, err = run(capsys, "device", "update", *more, "-c", path)
    assert (code, err.count("\n")) == (3, 1), err


def test_a_wrong_wait_is_told_before_what_else_lacks(path: Path, capsys: pytest.CaptureFixture) -> None:
    _, _, err = run(capsys, "device", "update", "--wait", "soon", "-c", path)
    assert "--wait 'soon': write a number with a unit" in err


def test_durations_have_units() -> None:
    assert [seconds_of(text) for text in ("90s", "5m", "30min", "1h", "2d")] == [90, 300, 1800, 3600, 172_800]
    with pytest.raises(ConfigError, match="write a number with a unit"):
        seconds_of("60")
