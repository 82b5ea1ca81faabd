"""What is committed is there after a reopening, and the rules of the tables hold."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from aggregator.storage.journal import Journal
from aggregator.storage.rows import Answer, DeviceRow, Refusal
from aggregator.storage.tables.updates import REFUSALS, REPORTS
from core.errors import ConfigError
from tests.aggregator.journals import HYPER, a_model, a_round, an_update, asked, digest
from wire.refusals import RefusalReason

pytestmark = pytest.mark.light


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.db")


def test_a_round_its_invitations_and_updates_come_back_as_they_were(tmp_path: Path, journal: Journal) -> None:
    with journal.transaction():
        journal.open_round(a_round(bits=4, update="delta"), asked("b", "a"))
        journal.add_update(an_update("b"))
        journal.add_update(an_update("a"))
    again = Journal(tmp_path / "journal.db", read_only=True)
    assert again.last_round() == a_round(bits=4, update="delta")
    assert again.last_round().hyper == HYPER
    assert [i.device for i in again.invitations(1)] == ["a", "b"]
    assert again.updates(1) == [an_update("a"), an_update("b")]


def test_a_transaction_is_all_or_nothing(journal: Journal) -> None:
    def fail() -> None:
        with journal.transaction():
            journal.open_round(a_round(), asked("a"))
            journal.open_round(a_round(), asked("a"))

    with pytest.raises(sqlite3.IntegrityError):
        fail()
    assert journal.last_round() is None


def test_a_commit_survives_the_kill_of_its_process(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from aggregator.storage.journal import Journal\n"
        "j = Journal(Path(sys.argv[1]))\n"
        "with j.transaction(): j.put('fact', 'kept')\n"
        "j.db.execute('BEGIN'); j.put('fact', 'not committed')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "journal.db")], check=False)
    assert done.returncode == -9
    assert Journal(tmp_path / "journal.db").get("fact") == "kept"


def test_it_writes_ahead_and_waits_for_the_disk(journal: Journal) -> None:
    assert journal.db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert journal.db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


def test_there_is_one_open_round_at_a_time(journal: Journal) -> None:
    journal.open_round(a_round(1, "fusing"), [])
    with pytest.raises(sqlite3.IntegrityError):
        journal.open_round(a_round(2), [])
    journal.set_round(1, phase="closed", closed=9.0)
    journal.open_round(a_round(2), [])
    assert [(r.number, r.phase, r.closed) for r in journal.rounds()] == [(2, "open", None), (1, "closed", 9.0)]
    assert journal.completed() == 1


@pytest.mark.parametrize("change", [{"transfer": "0" * 32}, {"round": 2}, {"round": 2, "transfer": "0" * 32}])
def test_a_device_is_counted_once_a_round_a_transfer_once_and_a_nonce_once(journal: Journal, change: dict) -> None:
    journal.open_round(a_round(1, "closed"), [])
    journal.open_round(a_round(2), [])
    journal.add_update(an_update("a", 1))
    with pytest.raises(sqlite3.IntegrityError):
        journal.add_update(replace(an_update("a", 1), **change))


def test_decisions_are_found_by_transfer(journal: Journal) -> None:
    journal.open_round(a_round(), [])
    journal.add_update(an_update("a"))
    refusal = Refusal(device="a", transfer="t", round=1, reason="another shape", time=4.0)
    journal.add_refusal(refusal)
    assert journal.accepted_round("a", an_update("a").transfer) == 1
    assert journal.accepted_round("b", an_update("a").transfer) is None
    assert journal.refusal("a", "t") == refusal
    assert journal.refusal("b", "t") is None
    assert journal.has_nonce("a", an_update("a").nonce)
    assert not journal.has_nonce("b", an_update("a").nonce)
    assert journal.has_update("a", 1)
    assert not journal.has_update("a", 2)


def test_refusals_and_late_updates_are_counted_per_device_and_the_oldest_forgotten(journal: Journal) -> None:
    journal.open_round(a_round(), [])
    journal.add_update(an_update("a", late=True))
    with journal.transaction():
        for i in range(REFUSALS + 5):
            journal.add_refusal(Refusal(device="a", transfer=f"t{i}", round=1, reason="bad", time=float(i)))
        late = RefusalReason.LATE
        journal.add_refusal(Refusal(device="a", transfer="z", round=1, reason=late.say(number=1), time=1e9, why=late))
    (row,) = journal.devices()
    assert (row.refused, row.late, row.accepted) == (REFUSALS + 5, 2, 0)
    assert journal.refusal("a", "t5") is None
    assert journal.refusal("a", "t6") is not None
    assert len(journal.refusals(10**6)) == REFUSALS


@pytest.mark.parametrize("why", [*RefusalReason, None])
def test_a_refusal_comes_back_with_its_reason_and_only_late_is_counted_as_late(
    journal: Journal, why: RefusalReason | None
) -> None:
    refusal = Refusal(device="a", transfer="t", round=1, reason="late: whatever it says", time=4.0, why=why)
    journal.add_refusal(refusal)
    assert journal.refusal("a", "t") == refusal
    assert journal.refusals() == [refusal]
    (row,) = journal.devices()
    assert (row.late, row.refused) == ((1, 0) if why is RefusalReason.LATE else (0, 1))


def test_a_refusal_that_an_older_edgestill_has_stored_has_its_text_alone(journal: Journal) -> None:
    journal.db.execute("INSERT INTO refusals VALUES ('a', 't', 1, 'late: round 1 is closed', 4.0)")
    assert journal.refusal("a", "t") == Refusal(
        device="a", transfer="t", round=1, reason="late: round 1 is closed", time=4.0
    )


def test_late_updates_are_kept_apart(journal: Journal) -> None:
    journal.open_round(a_round(), asked("a", "b"))
    journal.add_update(an_update("a"))
    journal.add_update(an_update("b", late=True))
    assert [u.device for u in journal.updates(1)] == ["a"]
    assert [u.device for u in journal.updates(1, late=True)] == ["b"]


def test_what_devices_said_last_is_that_of_their_newest_update_that_counts(journal: Journal) -> None:
    for number in (1, 2, 3):
        journal.open_round(a_round(number, "closed"), asked("a", "b"))
        journal.add_update(replace(an_update("a", number), metrics={"accuracy": number / 10}))
    journal.add_update(replace(an_update("b", 1), metrics={"train_loss": 0.5}))
    journal.withdraw(3, "a", "not to be fused")
    assert journal.newest_metrics() == {"a": {"accuracy": 0.2}, "b": {"train_loss": 0.5}}


def test_a_withdrawn_invitation_takes_its_update_out_of_the_round(journal: Journal) -> None:
    journal.open_round(a_round(), asked("a", "b"))
    journal.add_update(an_update("a"))
    journal.withdraw(1, "a", "revoked")
    assert [i.device for i in journal.invitations(1)] == ["b"]
    assert journal.updates(1) == []


def test_devices_are_noted_column_by_column(journal: Journal) -> None:
    journal.note_device("a", status="online", session=3, seen=5.0)
    journal.note_device("a", prototype="cnn:w1", revoked=1)
    journal.count("a", "refused", 4)
    assert journal.devices() == [
        DeviceRow(id="a", status="online", session=3, seen=5.0, prototype="cnn:w1", revoked=True, refused=4)
    ]


def test_the_newest_model_of_a_prototype_is_its_current_one(journal: Journal) -> None:
    for name, prototype in (("m1", "mlp:fp32"), ("c1", "cnn:w1"), ("m2", "mlp:fp32")):
        journal.add_model(a_model(name, prototype, parents=(digest("p"),), metrics={"accuracy": 0.5}))
    assert {p: m.digest for p, m in journal.current().items()} == {"cnn:w1": digest("c1"), "mlp:fp32": digest("m2")}
    assert [m.number for m in journal.models("mlp:fp32")] == [1, 3]
    assert journal.current()["mlp:fp32"].parents == (digest("p"),)
    assert journal.model_sizes() == {digest(n): 100 for n in ("m1", "c1", "m2")}


def test_models_are_found_by_number_and_by_the_start_of_their_digest(journal: Journal) -> None:
    journal.add_model(a_model("m1"))
    journal.add_model(a_model("m2"))
    assert [m.digest for m in journal.find_models("2")] == [digest("m2")]
    assert [m.digest for m in journal.find_models(digest("m1")[:10])] == [digest("m1")]
    assert journal.find_models("zz") == []


def test_blobs_of_models_and_of_the_newest_rounds_are_named(journal: Journal) -> None:
    journal.add_model(a_model("m1"))
    for number in (1, 2, 3):
        journal.open_round(a_round(number, "closed"), [])
        journal.add_update(an_update("a", number))
    assert journal.named_blobs(1) == {digest("m1"), digest("a 2"), digest("a 3")}


def test_what_the_broker_holds_is_remembered(journal: Journal) -> None:
    journal.add_model(a_model("m1"))
    journal.set_retained(digest("m1"), True)
    assert journal.retained() == {digest("m1"): 100}
    journal.set_retained(digest("m1"), False)
    assert journal.retained() == {}


def test_a_command_of_another_process_is_found_and_answered(tmp_path: Path, journal: Journal) -> None:
    other = Journal(tmp_path / "journal.db")
    number = other.ask("revoke", "pi-07")
    (command,) = journal.commands()
    assert (command.id, command.verb, command.argument) == (number, "revoke", "pi-07")
    assert other.answer_of(number) is None
    journal.answer(number, "revoked")
    assert journal.commands() == []
    assert other.answer_of(number) == Answer("revoked")
    failed = other.ask("revoke", "pi-08")
    journal.answer(failed, "no such device", failed=True)
    assert other.answer_of(failed) == Answer("no such device", failed=True)


def test_a_reader_cannot_write_and_does_not_make_a_journal(tmp_path: Path, journal: Journal) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        Journal(tmp_path / "journal.db", read_only=True).put("a", "b")
    with pytest.raises(ConfigError, match="there is no journal"):
        Journal(tmp_path / "other.db", read_only=True)
    assert not (tmp_path / "other.db").exists()


def test_a_journal_of_another_schema_is_refused(tmp_path: Path, journal: Journal) -> None:
    journal.db.execute("PRAGMA user_version = 99")
    with pytest.raises(ConfigError, match="schema 99, this edgestill reads 3; use the newer version"):
        Journal(tmp_path / "journal.db")


def test_a_file_that_is_no_journal_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"x" * 5000)
    with pytest.raises(ConfigError, match=r"journal.db: the journal cannot be opened"):
        Journal(tmp_path / "journal.db")


def test_late_updates_of_the_round_before_teach_once_it_is_settled_who(journal: Journal) -> None:
    journal.open_round(a_round(1, "closed"), asked("a", "b", "c", "d", "e"))
    for device in ("a", "b", "d", "e"):
        journal.add_update(an_update(device, 1, late=True))
    journal.withdraw(1, "d", "revoked")  # revoked while the round was open
    journal.note_device("e", revoked=1)  # and after it
    journal.open_round(a_round(2, "fusing"), asked("a", "b", "c"))
    journal.add_update(an_update("b", 2))  # in time now: its late model is the older one
    assert journal.late_teachers(2) == []
    journal.note_late(2)
    assert journal.late_teachers(2) == [(an_update("a", 1, late=True), digest("m"))]
    journal.add_update(an_update("c", 1, late=True))  # after fusing has begun: a restart must not see it
    assert [row.device for row, _ in journal.late_teachers(2)] == ["a"]
    assert journal.late_teachers(3) == []


def test_reports_of_the_newest_rounds_are_kept(journal: Journal) -> None:
    for number in range(1, REPORTS + 3):
        journal.add_report(number, {"devices": {"a": {"weight": number}}})
    assert journal.report(2) == journal.report(10**6) == {}
    assert journal.report(3) == {"devices": {"a": {"weight": 3}}}
    assert journal.report(REPORTS + 2)["devices"]["a"]["weight"] == REPORTS + 2


def test_an_epoch_is_the_time_and_only_grows(tmp_path: Path, journal: Journal) -> None:
    assert journal.epoch() == 0
    assert journal.begin_epoch(1_760_000_000.9) == 1_760_000_000
    assert journal.begin_epoch(1_760_000_000.9) == 1_760_000_001  # a clock that stands, or has gone back
    assert journal.begin_epoch(12.0) == 1_760_000_002
    assert journal.begin_epoch(1_760_000_500.0) == 1_760_000_500
    assert Journal(tmp_path / "journal.db", read_only=True).epoch() == 1_760_000_500


def test_a_board_that_thinks_it_is_1970_begins_an_epoch_all_the_same(journal: Journal) -> None:
    assert journal.begin_epoch(0.0) == 1


def test_models_have_the_numbers_of_their_publication(journal: Journal) -> None:
    for name in "abc":
        journal.add_model(replace(a_model(), digest=digest(name)))
    assert journal.model_numbers() == {digest("a"): 1, digest("b"): 2, digest("c"): 3}


def test_failures_of_the_newest_rounds_are_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    journal.add_failure(1, "pi-1", "out of memory")
    journal.add_failure(1, "pi-2", "training diverged")
    journal.add_failure(1, "pi-1", "disk full")
    assert journal.failures(1) == {"pi-1": "disk full", "pi-2": "training diverged"}
    assert journal.failures(2) == {}
    journal.add_failure(51, "pi-1", "again")
    assert journal.failures(1) == {}
