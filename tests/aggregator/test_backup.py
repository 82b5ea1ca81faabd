"""A fleet in one file, and back."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import tarfile
import time
from pathlib import Path

import pytest

from aggregator.backup import back_up, put_back
from aggregator.status import only_service
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.state_check import check_before_opening, check_state
from core.errors import ConfigError, StorageError
from tests.aggregator.old_states import unpack_schema_1

pytestmark = pytest.mark.light
FLEET = "test-fleet"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = unpack_schema_1(tmp_path)
    Journal(folder / "journal.db").close()
    (folder / "memory").mkdir()
    (folder / "memory" / "1.safetensors").write_bytes(b"momentum")
    return folder


def rows(state: Path) -> dict[str, list]:
    journal = Journal(state / "journal.db", read_only=True)
    try:
        tables = ("devices", "rounds", "invitations", "updates", "models", "current")
        return {t: journal.db.execute(f"SELECT * FROM {t} ORDER BY 1, 2").fetchall() for t in tables}
    finally:
        journal.close()


def test_what_is_put_back_is_what_was_there_in_a_new_epoch(state: Path, tmp_path: Path) -> None:
    facts = back_up(state, tmp_path / "fleet.tar")
    assert (facts["fleet"], facts["round"], facts["models"], facts["blobs"]) == (FLEET, 2, 2, 7)
    assert stat.S_IMODE((tmp_path / "fleet.tar").stat().st_mode) == 0o600
    new = tmp_path / "elsewhere" / "state"
    said = put_back(tmp_path / "fleet.tar", new, fleet=FLEET, now=5000.0)
    assert (said["epoch"], said["round"], said["moved_aside"]) == (5000, 2, None)
    assert rows(new) == rows(state)
    assert sorted(Blobs(new / "blobs")) == sorted(Blobs(state / "blobs"))
    assert (new / "memory" / "1.safetensors").read_bytes() == b"momentum"
    journal = Journal(new / "journal.db")
    check_before_opening(new)
    check_state(journal, Blobs(new / "blobs"), new)
    assert journal.epoch() == 5000
    journal.close()
    modes = {stat.S_IMODE(p.stat().st_mode) & 0o077 for p in new.rglob("*") if p.name != "lock"}
    assert modes <= {0, 0o055}  # the folders' own
    assert sorted(p.name for p in new.parent.iterdir()) == ["state"]


def test_an_epoch_is_never_earlier_than_one_before(state: Path, tmp_path: Path) -> None:
    back_up(state, tmp_path / "fleet.tar")
    put_back(tmp_path / "fleet.tar", tmp_path / "b", fleet=FLEET, now=9000.0)
    back_up(tmp_path / "b", tmp_path / "later.tar")
    assert put_back(tmp_path / "later.tar", tmp_path / "c", fleet=FLEET, now=100.0)["epoch"] == 9001


def test_a_folder_that_holds_a_fleet_is_moved_aside_only_when_told(state: Path, tmp_path: Path) -> None:
    back_up(state, tmp_path / "fleet.tar")
    before = {p.relative_to(state): p.read_bytes() for p in state.rglob("*") if p.is_file()}
    with pytest.raises(ConfigError, match="already contains a fleet; with --force it is moved aside"):
        put_back(tmp_path / "fleet.tar", state, fleet=FLEET, now=1.0)
    aside = Path(put_back(tmp_path / "fleet.tar", state, fleet=FLEET, now=1.0, force=True)["moved_aside"])
    kept = {p.relative_to(aside): p.read_bytes() for p in aside.rglob("*") if p.is_file()}
    assert kept == {name: data for name, data in before.items() if name != Path("lock")}


def test_a_running_aggregator_and_another_fleet_are_refused(state: Path, tmp_path: Path) -> None:
    back_up(state, tmp_path / "fleet.tar")
    with pytest.raises(ConfigError, match="a backup of fleet 'test-fleet'; this is fleet 'other'"):
        put_back(tmp_path / "fleet.tar", tmp_path / "new", fleet="other", now=1.0)
    with only_service(state), pytest.raises(ConfigError, match="another aggregator is running on it; stop it first"):
        put_back(tmp_path / "fleet.tar", state, fleet=FLEET, now=1.0, force=True)


def test_a_restore_that_was_interrupted_is_not_served_and_can_be_repeated(state: Path, tmp_path: Path) -> None:
    back_up(state, tmp_path / "fleet.tar")
    (state / "restoring").touch()
    shutil.rmtree(state / "blobs")
    (state / "journal.db").unlink()
    with pytest.raises(StorageError, match="a restore was interrupted; run `edgestill aggregator restore --force`"):
        check_before_opening(state)
    put_back(tmp_path / "fleet.tar", state, fleet=FLEET, now=1.0, force=True)
    check_before_opening(state)
    assert not (state / "restoring").exists()


def rewrite(path: Path, change) -> None:
    """The same archive with other members; `change` takes and gives (name, data) or None."""
    with tarfile.open(path) as archive:
        members = [(m.name, archive.extractfile(m).read()) for m in archive]
    with tarfile.open(path, "w") as archive:
        for changed in filter(None, (change(*member) for member in members)):
            info = tarfile.TarInfo(changed[0])
            info.size = len(changed[1])
            archive.addfile(info, io.BytesIO(changed[1]))


def manifest(**changes: object):
    return lambda name, data: (
        (name, json.dumps({**json.loads(data), **changes}).encode()) if "json" in name else (name, data)
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda n, d: (n, d[:-1] + b"x") if n == "journal.db" else (n, d), "journal.db is damaged; use another backup"),
        (lambda n, d: (n, b"x") if "blobs" in n else (n, d), "is damaged; use another backup"),
        (lambda n, d: None if n == "journal.db" else (n, d), "journal.db is missing; use another backup"),
        (lambda n, d: None if "blobs" in n else (n, d), "cannot be restored: the model of cnn:w1"),
        (lambda n, d: None if n == "backup.json" else (n, d), "it does not begin with backup.json"),
        (
            lambda n, d: ("../evil", d) if n == "journal.db" else (n, d),
            "contains '../evil', which is not part of a backup",
        ),
        (manifest(format=9), "format 9, this edgestill reads 1"),
        (manifest(files=3), "backup.json is malformed"),
    ],
)
def test_an_archive_that_is_not_whole_is_refused_and_nothing_is_touched(
    state: Path, tmp_path: Path, change, problem: str
) -> None:
    back_up(state, tmp_path / "fleet.tar")
    rewrite(tmp_path / "fleet.tar", change)
    before = {p: p.read_bytes() for p in state.rglob("*") if p.is_file()}
    with pytest.raises(ConfigError, match=problem):
        put_back(tmp_path / "fleet.tar", state, fleet=FLEET, now=1.0, force=True)
    assert {p: p.read_bytes() for p in state.rglob("*") if p.is_file() and p.name != "lock"} == {
        p: d for p, d in before.items() if p.name != "lock"
    }
    assert not list(tmp_path.glob("state.before*"))
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("data", [b"", b"not a tar", b"\0" * 20_000])
def test_a_file_that_is_no_backup_is_told_so(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.tar").write_bytes(data)
    with pytest.raises(ConfigError, match=r"x\.tar: not a readable backup"):
        put_back(tmp_path / "x.tar", tmp_path / "state", fleet=FLEET, now=1.0)


def test_a_pipe_a_folder_and_nothing_are_no_backup_and_nobody_waits_for_them(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "", "none.tar"):
        with pytest.raises(ConfigError, match="not a readable backup"):
            put_back(tmp_path / name, tmp_path / "state", fleet=FLEET, now=1.0)


def test_updates_that_were_collected_are_left_out_but_those_of_the_open_round_are_needed(
    state: Path, tmp_path: Path
) -> None:
    journal = Journal(state / "journal.db")
    closed, open_ = (journal.updates(number)[0].digest for number in (1, 2))
    (state / "blobs" / closed).unlink()
    assert back_up(state, tmp_path / "fleet.tar")["blobs"] == 6
    (state / "blobs" / open_).unlink()
    with pytest.raises(StorageError, match=f"blob {open_[:12]}… in .* is not there"):
        back_up(state, tmp_path / "again.tar")
    assert sorted(os.listdir(tmp_path)) == ["fleet.tar", "state"]
    journal.close()


@pytest.mark.parametrize("damage", [None, b"flipped"])
def test_an_older_model_that_is_lost_is_named_and_stops_no_backup(
    state: Path, tmp_path: Path, damage: bytes | None
) -> None:
    journal = Journal(state / "journal.db")
    older = journal.models()[0].digest
    journal.close()
    path = state / "blobs" / older
    path.unlink() if damage is None else path.write_bytes(damage)
    facts = back_up(state, tmp_path / "fleet.tar")
    assert (facts["models"], facts["models_lost"]) == (1, [older])
    put_back(tmp_path / "fleet.tar", tmp_path / "new", fleet=FLEET, now=1.0)
    assert older not in set(Blobs(tmp_path / "new" / "blobs"))


def test_who_was_revoked_after_the_backup_stays_revoked(state: Path, tmp_path: Path) -> None:
    back_up(state, tmp_path / "fleet.tar")
    journal = Journal(state / "journal.db")
    journal.note_device("pi-1", revoked=1)
    journal.close()
    assert put_back(tmp_path / "fleet.tar", state, fleet=FLEET, now=1.0, force=True)["revoked"] == ["pi-1"]
    journal = Journal(state / "journal.db")
    assert [row.id for row in journal.devices() if row.revoked] == ["pi-1"]
    journal.close()
    assert put_back(tmp_path / "fleet.tar", tmp_path / "new", fleet=FLEET, now=1.0)["revoked"] is None


def test_a_folder_that_is_not_there_is_named(state: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"fleet\.tar: there is no folder .*nowhere; create it first"):
        back_up(state, tmp_path / "nowhere" / "fleet.tar")


def test_a_backup_is_a_snapshot_though_the_journal_is_written_meanwhile(state: Path, tmp_path: Path) -> None:
    journal = Journal(state / "journal.db")
    with journal.transaction():  # uncommitted: not in it
        journal.note_device("pi-9", status="online")
        back_up(state, tmp_path / "fleet.tar")
    put_back(tmp_path / "fleet.tar", tmp_path / "new", fleet=FLEET, now=time.time())
    assert "pi-9" not in {row[0] for row in rows(tmp_path / "new")["devices"]}
    assert "pi-9" in {row[0] for row in rows(state)["devices"]}
    journal.close()
