"""What the service refuses to start on, and what it says to do."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from aggregator.service import Service
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.state_check import check_before_opening, check_state, problems_of
from core.errors import ConfigError, StorageError
from tests.aggregator.old_states import DEVICES, unpack_schema_1
from tests.aggregator.scripted import write_fleet
from transport.config import BrokerConfig

pytestmark = pytest.mark.light


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = unpack_schema_1(tmp_path)
    Journal(folder / "journal.db").close()
    return folder


def check(state: Path) -> None:
    check_before_opening(state)
    journal = Journal(state / "journal.db")
    try:
        check_state(journal, Blobs(state / "blobs"), state)
    finally:
        journal.close()


def current(state: Path) -> Path:
    journal = Journal(state / "journal.db")
    (model,) = journal.current().values()
    journal.close()
    return state / "blobs" / model.digest


def test_a_sound_folder_and_a_new_one_are_served(state: Path, tmp_path: Path) -> None:
    check(state)
    check_before_opening(tmp_path / "new")


@pytest.mark.parametrize("how", ["missing", "empty"])
def test_a_journal_that_is_gone_beside_blobs_is_refused_and_no_blob_is_touched(
    state: Path, tmp_path: Path, how: str
) -> None:
    (state / "journal.db").unlink()
    if how == "empty":
        (state / "journal.db").touch()
    before = sorted(p.name for p in (state / "blobs").iterdir())
    config = load_fleet_config(
        write_fleet(tmp_path, BrokerConfig(), DEVICES, prototypes='!names = ["cnn:w1"]'), environ={}
    )
    match = rf"the journal is {how}, but blobs/ holds {len(before)} files of a fleet; put a backup back .* move .* away"
    with pytest.raises(StorageError, match=match):
        Service(config)
    assert sorted(p.name for p in (state / "blobs").iterdir()) == before


def test_a_journal_with_flipped_bytes_is_refused(state: Path) -> None:
    """Up to 256 bytes of every page in turn: SQLite sees what breaks its structure, our records what breaks theirs."""
    path = state / "journal.db"
    journal = Journal(path)
    assert journal.db.execute("PRAGMA freelist_count").fetchone()[0] > 0, "of tables that a migration has replaced"
    journal.db.execute("VACUUM")  # nobody reads free pages, whatever they hold
    journal.close()
    whole = path.read_bytes()
    rng = random.Random(0)
    pages = len(whole) // 4096
    missed = []
    for page in range(pages):
        data = bytearray(whole)
        start = page * 4096
        used = [at for at in range(start, start + 4096) if data[at]]
        for at in rng.sample(used, min(len(used), 256)):
            data[at] ^= 0xFF
        path.write_bytes(bytes(data))
        for other in state.glob("journal.db-*"):
            other.unlink()
        try:
            check(state)
        except (StorageError, ConfigError):
            continue
        missed.append(page)
    assert not missed
    path.write_bytes(whole)
    check(state)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("UPDATE rounds SET hyper = x'00'", "a record cannot be read"),
        ("UPDATE models SET parents = '['", "a record cannot be read"),
        ("UPDATE updates SET digest = 'x'", "'x' is no digest"),
        ("UPDATE invitations SET round = 77 WHERE device = 'pi-0' AND round = 2", "names something that is not there"),
        ("INSERT OR REPLACE INTO meta VALUES ('hold', 'perhaps')", "hold is 'perhaps'"),
        ("INSERT OR REPLACE INTO meta VALUES ('report:1', '{')", "a record cannot be read"),
    ],
)
def test_records_that_cannot_be_are_found(state: Path, change: str, problem: str) -> None:
    journal = Journal(state / "journal.db")
    assert list(problems_of(journal)) == []
    journal.db.execute("PRAGMA foreign_keys = OFF")
    journal.db.execute(change)
    assert problem in " ".join(problems_of(journal))
    journal.close()


@pytest.mark.parametrize("damage", [b"", b"\0" * 7318, None])
def test_a_current_model_that_is_damaged_can_be_rolled_back_from_and_is_named(
    state: Path, caplog: pytest.LogCaptureFixture, damage: bytes | None
) -> None:
    path = current(state)
    path.unlink() if damage is None else path.write_bytes(damage)
    check(state)
    assert "model 2 of cnn:w1, round 1: blob " in caplog.text
    assert "edgestill model rollback" in caplog.text


def test_without_any_whole_model_of_a_prototype_the_service_does_not_start(state: Path) -> None:
    shutil.rmtree(state / "blobs")
    with pytest.raises(StorageError, match=r"the model of cnn:w1: blob .* is not there; .* restore"):
        check(state)
