"""Journals of older schemas become today's, and the round that was open goes on."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from aggregator.rounds.restore import restore
from aggregator.rounds.state import Phase, Rules
from aggregator.storage.journal import Journal
from aggregator.storage.schema import MIGRATIONS, SCHEMA, connect
from core.errors import ConfigError
from tests.aggregator.old_states import DEVICES, unpack_schema_1
from tests.aggregator.running import Aggregator, Devices
from tests.aggregator.scripted import write_fleet


def columns(path: Path) -> dict[str, list[tuple]]:
    """Name, type, nullability, default and key of every column, by table."""
    db = sqlite3.connect(path)
    names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    found = {name: [tuple(row[1:]) for row in db.execute(f"PRAGMA table_info({name})")] for name in names}
    db.close()
    return found


@pytest.mark.light
def test_every_older_schema_has_a_migration() -> None:
    assert sorted(MIGRATIONS) == list(range(1, SCHEMA))


@pytest.mark.light
def test_a_migrated_journal_has_the_tables_of_a_new_one_and_keeps_every_row(tmp_path: Path) -> None:
    path = unpack_schema_1(tmp_path) / "journal.db"
    before = sqlite3.connect(path)
    counts = {name: before.execute(f"SELECT count(*) FROM {name}").fetchone() for name in columns(path)}
    before.close()
    Journal(path).close()
    connect(tmp_path / "new.db").close()
    assert columns(path) == columns(tmp_path / "new.db")
    after = sqlite3.connect(path)
    assert {name: after.execute(f"SELECT count(*) FROM {name}").fetchone() for name in counts} == counts
    assert after.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    after.close()
    old = sqlite3.connect(path.with_name("journal.db.schema-1"))  # the way back
    assert old.execute("PRAGMA user_version").fetchone() == (1,)
    assert old.execute("SELECT count(*) FROM rounds").fetchone() == counts["rounds"]
    old.close()


@pytest.mark.light
def test_scores_of_older_models_get_the_names_of_today(tmp_path: Path) -> None:
    """Schema 2 had the accuracy with float weights as `accuracy`, and that of the boards beside it."""
    path = unpack_schema_1(tmp_path) / "journal.db"
    old = sqlite3.connect(path)
    numbers = [number for (number,) in old.execute("SELECT number FROM models ORDER BY number")]
    told = '{"accuracy": 0.9, "loss": 0.3, "accuracy_quantized": 0.6, "average_accuracy": 0.5, "train_loss": 1.0}'
    old.execute("UPDATE models SET metrics = ? WHERE number = ?", (told, numbers[0]))
    old.execute('UPDATE models SET metrics = \'{"accuracy": 0.8, "loss": 0.4}\' WHERE number = ?', (numbers[1],))
    old.commit()
    old.close()
    journal = Journal(path)
    metrics = {model.number: model.metrics for model in journal.models()}
    journal.close()
    assert metrics[numbers[0]] == {"accuracy": 0.6, "accuracy_float": 0.9, "train_loss": 1.0}
    assert metrics[numbers[1]] == {"accuracy": 0.8, "loss": 0.4}, "of a float prototype: they meant the same"


@pytest.mark.light
@pytest.mark.parametrize("content", [b"not a database at all" * 300, None])
def test_a_journal_that_is_none_names_the_way_out(tmp_path: Path, content: bytes | None) -> None:
    path = unpack_schema_1(tmp_path) / "journal.db"
    whole = path.read_bytes()
    path.write_bytes(content if content is not None else whole[:100] + bytes(4000) + whole[4100:])
    with pytest.raises(ConfigError, match="it is damaged: put a backup back with `edgestill aggregator restore"):
        Journal(path)


@pytest.mark.light
def test_the_open_round_is_found_as_it_was(tmp_path: Path) -> None:
    rules = Rules(seed=3, prototypes=("cnn:w1",), rounds=3, fraction=1.0, min_devices=3, quorum=0.8, deadline_s=60.0)
    state = restore(Journal(unpack_schema_1(tmp_path) / "journal.db"), rules, DEVICES, 0.0)
    assert (state.phase, state.round, state.completed) == (Phase.COLLECTING, 2, 1)
    assert (sorted(state.invited), sorted(state.answered)) == (DEVICES, ["pi-0", "pi-1"])


@pytest.mark.light
def test_commands_that_only_read_do_not_migrate(tmp_path: Path) -> None:
    path = unpack_schema_1(tmp_path) / "journal.db"
    with pytest.raises(ConfigError, match="a journal of schema 1; it becomes 5 when this edgestill's aggregator is"):
        Journal(path, read_only=True)


@pytest.mark.light
def test_a_migration_that_fails_leaves_the_journal_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = unpack_schema_1(tmp_path) / "journal.db"
    before = columns(path)
    monkeypatch.setitem(MIGRATIONS, 1, MIGRATIONS[1] + "; ALTER TABLE nowhere ADD COLUMN x")
    with pytest.raises(ConfigError, match="cannot be opened: no such table: nowhere"):
        Journal(path)
    assert columns(path) == before


@pytest.mark.broker
def test_after_an_upgrade_in_place_the_open_round_is_finished_with_the_answers_it_had(
    tmp_path: Path, mosquitto
) -> None:
    """pi-0 and pi-1 answered before the upgrade: they are not asked again, and pi-2's answer closes the round."""
    unpack_schema_1(tmp_path)
    names = '!names = ["cnn:w1"]'
    round_2 = "!rounds = 2\nmin_devices = 3\ndeadline_s = 60"
    path = write_fleet(tmp_path, mosquitto.config, DEVICES, round=round_2, prototypes=names)
    with Aggregator(path) as service, Devices(mosquitto.config, ["pi-2"], ("cnn:w1",)):
        service.start("--until-done")
        assert service.wait() == 0
    journal = service.journal()
    assert [(r.number, r.phase) for r in journal.rounds()] == [(2, "closed"), (1, "closed")]
    assert [u.device for u in journal.updates(2)] == DEVICES
    journal.close()
