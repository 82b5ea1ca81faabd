"""`edgestill aggregator`: commands for the service, backups, and what keeps it from starting."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from firmware_configs.services.readable import find_account
from tests.aggregator.scripted import FLEET
from tests.edgestill.cli.typed import run


@pytest.mark.parametrize(
    ("args", "verb", "argument"),
    [
        (["aggregator", "pause"], "pause", ""),
        (["aggregator", "resume"], "resume", ""),
        (["aggregator", "stop"], "stop", ""),
        (["device", "revoke", "pi-0"], "revoke", "pi-0"),
        (["device", "revoke", "pi-0", "--undo"], "allow", "pi-0"),
    ],
)
def test_a_command_waits_in_the_journal_for_an_aggregator_that_is_down(
    config: Path, capsys: pytest.CaptureFixture, args: list, verb: str, argument: str
) -> None:
    code, out, _ = run(capsys, *args, "--config", config)
    assert code == 0
    assert f"is not running: it will {verb} when it starts" in " ".join(out.split())
    (command,) = Journal(load_fleet_config(config).state / "journal.db").commands()
    assert (command.verb, command.argument) == (verb, argument)


def test_serve_says_what_is_wrong_with_its_key(config: Path, capsys: pytest.CaptureFixture) -> None:
    (config.parent / "aggregator.key").chmod(0o644)
    code, _, err = run(capsys, "aggregator", "serve", "--config", config)
    assert code == 3
    assert "others can read it; run chmod 600" in " ".join(err.split())


def test_a_backup_is_written_told_and_put_back(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    tar, state = tmp_path / "fleet.tar", load_fleet_config(config).state
    Journal(state / "journal.db").put("fleet", FLEET)  # as the service does when it starts
    code, out, _ = run(capsys, "aggregator", "backup", "--config", config, "--to", tar)
    assert (code, f"wrote {tar}: fleet {FLEET} in round 1, 2 models, " in out) == (0, True)
    code, _, err = run(capsys, "aggregator", "restore", "--config", config, "--from", tar)
    assert (code, err.count("\n"), "--force" in err) == (3, 1, True)
    Journal(state / "journal.db").note_device("pi-1", revoked=1)
    code, out, _ = run(capsys, "aggregator", "restore", "--config", config, "--from", tar, "--force")
    assert (code, f"restored fleet {FLEET} in round 1 to {state}" in out) == (0, True)
    assert "revoked as before: pi-1\n" in out
    (aside,) = (line.removeprefix("the previous state is in ") for line in out.splitlines() if "previous state" in line)
    assert Path(aside, "journal.db").exists()
    assert len(Journal(state / "journal.db").models()) == 2


def test_a_model_that_is_lost_is_told_beside_the_backup(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    loaded = load_fleet_config(config)
    first, _ = Journal(loaded.state / "journal.db", read_only=True).models()
    Blobs(loaded.state / "blobs").path(first.digest).unlink()
    code, _, err = run(capsys, "aggregator", "backup", "--config", config, "--to", tmp_path / "fleet.tar")
    assert (code, first.digest[:12] in err) == (0, True)


@pytest.mark.parametrize("address", ["9464x", "127.0.0.1:99999"])
def test_serve_refuses_an_address_that_is_none(config: Path, capsys: pytest.CaptureFixture, address: str) -> None:
    code, _, err = run(capsys, "aggregator", "serve", "--config", config, "--metrics", address)
    assert code == 3
    assert f"'metrics': '{address}' is no address; write host:port, such as 127.0.0.1:9464" in " ".join(err.split())


def test_a_service_is_installed_shown_and_uninstalled(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    me = find_account(os.geteuid()).name
    given = ["--config", config, "--root", tmp_path]
    code, out, _ = run(capsys, "aggregator", "install", *given, "--user", me, "--dry-run")
    assert code == 0
    assert out.startswith("[Unit]\nDescription=edgestill aggregator of the fleet ")
    assert not (tmp_path / "etc").exists()
    code, out, _ = run(capsys, "aggregator", "install", *given, "--user", me, "--json")
    facts = json.loads(out)
    unit = Path(facts["unit"]["path"])
    assert (code, facts["changed"], facts["unit"]["user"]) == (0, True, me)
    assert unit.read_text() == facts["unit"]["text"]
    code, out, _ = run(capsys, "aggregator", "uninstall", *given)
    assert (code, out.startswith(f"removed {unit}\n"), unit.exists()) == (0, True, False)
    code, _, err = run(capsys, "aggregator", "uninstall", *given)
    assert (code, err.count("\n"), "is not installed as a service" in err) == (3, 1, True)
