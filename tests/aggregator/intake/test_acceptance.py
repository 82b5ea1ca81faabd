"""Updates handed in: what is answered, when, and that nothing is answered before it is durable."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from aggregator.intake.acceptance import BATCH, Desk
from aggregator.intake.checks import Asked
from aggregator.intake.transfers import Uploads
from aggregator.rounds.state import Verdict
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.rows import UpdateRow
from aggregator.tensor_checks import Published
from tests.aggregator.journals import a_round
from tests.aggregator.scripted import FLEET, key_of, seal_update
from tests.sender import Sender, content_of
from wire.chunks import encode_chunk
from wire.headers import encode_update
from wire.ids import digest_of, transfer_id
from wire.messages import Accepted, Ack, Rejected, UpdateHeader
from wire.refusals import RefusalReason
from wire.storage import MemoryStorage
from wire.tensors import encode
from wire.topics import UpdateChunk

pytestmark = pytest.mark.light
SHAPES = {"predictor.weight": (2, 3)}


@dataclass
class Rounds:
    """Round 1 is open to all; who is in `counted` has answered."""

    number: int = 1
    counted: set[str] = field(default_factory=set)

    def judge(self, device: str, number: int) -> Verdict:
        return Verdict(RefusalReason.ALREADY_COUNTED if device in self.counted else None)

    def asked(self, device: str, number: int) -> Asked | None:
        return Asked(prototype="mlp:fp32", model="0" * 64, classes=3, published=Published(shapes=SHAPES))

    time = 7.0

    def now(self) -> float:
        return self.time


class Office:
    """A desk and all that it says."""

    def __init__(self, folder: Path) -> None:
        self.rounds, self.journal, self.blobs = Rounds(), Journal(folder / "j.db"), Blobs(folder / "blobs")
        if self.journal.last_round() is None:
            self.journal.open_round(a_round(), [])
        self.said: list[tuple[str, Ack]] = []
        self.garbage: list[tuple[str, str]] = []
        self.stored: list[UpdateRow] = []
        uploads = Uploads(folder / "parts", max_size=10**6, per_device=2, max_bytes=10**7, min_chunk=10)
        self.desk = Desk(
            fleet=FLEET,
            uploads=uploads,
            blobs=self.blobs,
            journal=self.journal,
            rounds=self.rounds,
            answer=lambda device, ack: self.said.append((device, ack)),
            garbage=lambda device, why: self.garbage.append((device, why)),
            stored=self._stored,
        )

    def _stored(self, row: UpdateRow) -> None:
        self.stored.append(row)
        self.rounds.counted.add(row.device)

    def send(self, device: str, sealed: bytes, *numbers: int, size: int = 100) -> str:
        """Chunks of an update, all unless `numbers` says which; its transfer id."""
        content = content_of(sealed, chunk_size=size)
        sender = Sender(content, MemoryStorage(sealed))
        transfer = transfer_id(content.digest)
        for n in numbers or range(content.count):
            self.desk.chunk(UpdateChunk(FLEET, device, transfer, n), sender.chunk(n), key_of(device).public_key())
        return transfer


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def update(device: str, value: float = 1.0, shape: tuple[int, ...] = (2, 3)) -> bytes:
    header = UpdateHeader(
        round=1, device=device, prototype="mlp:fp32", update="state", num_examples=4, label_counts=(), base=None
    )
    body = encode({"predictor.weight": np.full(shape, value, np.float32)})
    return seal_update(device, encode_update(header, body), 1)


def test_nothing_is_answered_before_it_is_in_blob_and_journal(office: Office) -> None:
    sealed = update("a")
    transfer = office.send("a", sealed)
    assert office.said == []
    assert office.journal.updates(1) == []
    office.desk.flush()
    (row,) = office.journal.updates(1)
    assert office.blobs.read(row.digest) == sealed
    assert office.said[-1] == ("a", Accepted(transfer=transfer, round=1))
    assert office.stored == [row]
    assert (row.num_examples, row.size, row.received) == (4, len(sealed), 7.0)
    assert len(office.desk.uploads) == 0


def test_an_accepted_update_is_answered_again_and_counted_once(office: Office, tmp_path: Path) -> None:
    office.send("a", update("a"))
    office.desk.flush()
    office.said.clear()
    transfer = office.send("a", update("a"), 0)
    again = Office(tmp_path)  # after a restart
    again.send("a", update("a"), 1)
    assert office.said == again.said == [("a", Accepted(transfer=transfer, round=1))]
    assert len(office.stored) == 1


def test_chunks_that_come_again_before_the_batch_is_durable_get_no_answer(office: Office) -> None:
    office.send("a", update("a"))
    office.said.clear()
    office.send("a", update("a"))
    assert office.said == []
    office.desk.flush()
    assert [type(ack) for _, ack in office.said] == [Accepted]


def test_the_second_of_two_updates_at_once_is_already_counted(office: Office) -> None:
    office.send("a", update("a", 1.0))
    second = office.send("a", update("a", 2.0))
    office.desk.flush()
    assert office.said[-1] == (
        "a",
        Rejected(transfer=second, round=1, reason="already counted in round 1", why=RefusalReason.ALREADY_COUNTED),
    )
    assert len(office.journal.updates(1)) == 1
    assert office.garbage == []


def test_a_refusal_is_durable_and_answered_with_its_reason_again(office: Office, tmp_path: Path) -> None:
    bad = update("a", shape=(2, 4))
    transfer = office.send("a", bad)
    office.desk.flush()
    reason = "'predictor.weight' is (2, 4), expected (2, 3)"
    refusal = ("a", Rejected(transfer=transfer, round=1, reason=reason, why=RefusalReason.UNSOUND))
    assert office.said[-1] == refusal
    again = Office(tmp_path)
    again.send("a", bad, 0)
    assert again.said == [refusal]
    assert office.journal.devices()[0].refused == 1
    assert len(office.desk.uploads) == 0
    assert office.garbage == [("a", "")]  # counted, and told already


def test_an_update_over_the_limit_is_refused_at_once(office: Office) -> None:
    office.send("a", bytes(10**6 + 1), 0, size=1000)
    office.desk.flush()
    assert "at most 1000000 are allowed" in office.said[-1][1].reason


@pytest.mark.parametrize("what", ["damaged", "number", "transfer"])
def test_a_chunk_that_is_damaged_or_under_another_topic_is_garbage(office: Office, what: str) -> None:
    sealed = update("a")
    content = content_of(sealed, chunk_size=100)
    chunk = encode_chunk(content, 0, sealed[:100])
    topic = UpdateChunk(FLEET, "a", transfer_id(content.digest), 0)
    if what == "damaged":
        chunk = chunk[:-1] + bytes([chunk[-1] ^ 1])
    elif what == "number":
        topic = UpdateChunk(FLEET, "a", topic.transfer, 1)
    else:
        topic = UpdateChunk(FLEET, "a", "0" * 32, 0)
    office.desk.chunk(topic, chunk, key_of("a").public_key())
    assert [device for device, _ in office.garbage] == ["a"]
    assert office.said == []
    assert len(office.desk.uploads) == 0


def test_after_a_reconnection_every_unfinished_update_is_asked_for(office: Office) -> None:
    transfer = office.send("a", update("a"), 0)
    office.said.clear()
    office.desk.reconnected()
    ((device, ack),) = office.said
    assert (device, ack.transfer, ack.ranges[0][0]) == ("a", transfer, 1)


def test_a_full_batch_says_so(office: Office) -> None:
    for n in range(BATCH):
        assert not office.desk.full
        office.send(f"d{n}", update(f"d{n}"))
    assert office.desk.full
    office.desk.flush()
    assert not office.desk.full
    assert len(office.journal.updates(1)) == BATCH


def test_on_a_full_disk_nothing_is_answered_and_the_device_may_send_again(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_file: int) -> None:
        raise OSError(28, "No space left on device")

    office.send("a", update("a"))
    office.said.clear()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            office.desk.flush()
    assert office.said == []
    assert (len(office.desk.uploads), os.listdir(office.blobs.folder)) == (0, [])
    office.send("a", update("a"))
    office.desk.flush()
    assert [type(ack) for _, ack in office.said][-1] is Accepted


def test_a_large_update_is_checked_without_being_read_whole(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aggregator.intake.acceptance.MAPPED", 10)
    monkeypatch.setattr(Path, "read_bytes", None)
    office.send("a", update("a"), size=10)  # too many chunks to wait in memory
    office.desk.flush()
    assert len(office.stored) == 1


def test_a_decision_is_given_again_at_once_and_then_once_a_second(office: Office) -> None:
    transfer = office.send("a", update("a"))
    office.desk.flush()
    office.said.clear()
    for now in (7.0, 7.3, 7.9, 8.1, 8.2):
        office.rounds.time = now
        office.send("a", update("a"))
    assert office.said == [("a", Accepted(transfer=transfer, round=1))] * 2


def test_a_device_that_may_begin_nothing_goes_on_with_what_it_has_begun(office: Office) -> None:
    office.send("a", update("a"), 0)
    office.desk._may_begin = lambda device: device != "a"
    office.send("a", update("a", 2.0))
    office.send("b", update("b"))
    assert office.garbage == []
    office.send("a", update("a"))
    office.desk.flush()
    assert sorted((row.device, row.transfer) for row in office.stored) == sorted(
        (device, transfer_id(digest_of(update(device)))) for device in ("a", "b")
    )


def test_refusals_for_one_reason_are_logged_once_by_device(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    for device in ("a", "a", "b"):
        office.send(device, update(device, shape=(2, 4)))
    assert [record.args[0] for record in caplog.records if "refused" in record.msg] == ["a", "b"]
