"""What the fleet finds at the broker: said once, said again after a reconnection, cleared when nobody needs it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from aggregator.downlink.publisher import Publisher
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from tests.aggregator.journals import a_model
from tests.aggregator.scripted import FLEET, key_of
from wire.chunks import decode_chunk
from wire.codec import decode_ack, decode_instruction
from wire.envelope import open_envelope
from wire.ids import AGGREGATOR
from wire.messages import Accepted, Offer, Rejected
from wire.refusals import RefusalReason
from wire.topics import DeviceTopic, ModelChunk, parse

pytestmark = pytest.mark.light
DATA = bytes(150_000)


class Broker:
    """Retained messages by topic, and everything in order."""

    def __init__(self) -> None:
        self.connected = True
        self.retained: dict[str, bytes] = {}
        self.log: list[str] = []

    def publish(self, topic: str, payload: bytes, retain: bool) -> bool:
        if not self.connected:
            return False
        self.log.append(topic)
        if retain and payload:
            self.retained[topic] = payload
        elif retain:
            self.retained.pop(topic, None)
        else:
            self.last = payload
        return True


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def publisher(tmp_path: Path, broker: Broker) -> Publisher:
    blobs, journal = Blobs(tmp_path / "blobs"), Journal(tmp_path / "j.db")
    journal.add_model(a_model(size=len(DATA)))
    return Publisher(broker.publish, key=key_of(AGGREGATOR), fleet=FLEET, blobs=blobs, journal=journal)


def offer(number: int = 1, model: str = "0" * 64) -> Offer:
    return Offer(round=number, prototype="mlp:fp32", model=model)


def opened(payload: bytes, kind: str) -> bytes:
    key = key_of(AGGREGATOR).public_key()
    return open_envelope(payload, public_key=key, fleet=FLEET, sender=AGGREGATOR, kinds=(kind,)).payload


def test_artifacts_come_before_the_instructions_that_name_them(publisher: Publisher, broker: Broker) -> None:
    digest = publisher._blobs.put(DATA)
    publisher.say({digest: len(DATA)}, {"a": offer(model=digest)})
    kinds = [type(parse(topic)) for topic in broker.log]
    assert kinds == [ModelChunk] * 3 + [DeviceTopic]
    chunks = [decode_chunk(broker.retained[str(ModelChunk(FLEET, digest, n))]) for n in range(3)]
    assert b"".join(chunk.data for chunk in chunks) == DATA
    job = broker.retained[str(DeviceTopic(FLEET, "a", "job"))]
    assert decode_instruction(opened(job, "job")) == offer(model=digest)


def test_what_was_said_is_not_said_again_unless_it_changes(publisher: Publisher, broker: Broker) -> None:
    publisher.say({}, {"a": offer(), "b": offer()})
    publisher.say({}, {"a": offer(), "b": offer(2)})
    assert [parse(t).device for t in broker.log] == ["a", "b", "b"]


def test_after_a_reconnection_everything_is_said_again(publisher: Publisher, broker: Broker) -> None:
    digest = publisher._blobs.put(DATA)
    publisher.say({digest: len(DATA)}, {"a": offer()})
    publisher.forget()
    publisher.say({digest: len(DATA)}, {"a": offer()})
    assert broker.log[:4] == broker.log[4:]


def test_while_there_is_no_connection_nothing_counts_as_said(publisher: Publisher, broker: Broker) -> None:
    digest = publisher._blobs.put(DATA)
    broker.connected = False
    publisher.say({digest: len(DATA)}, {"a": offer()})
    broker.connected = True
    publisher.say({digest: len(DATA)}, {"a": offer()})
    assert len(broker.log) == 4


def test_nothing_to_do_is_an_empty_retained_message(publisher: Publisher, broker: Broker) -> None:
    publisher.say({}, {"a": offer()})
    publisher.say({}, {"a": None})
    assert broker.retained == {}
    assert len(broker.log) == 2


def test_an_instruction_is_signed_for_its_device_alone(publisher: Publisher, broker: Broker) -> None:
    told = {f"d{i}": msgspec.structs.replace(offer(), device=f"d{i}") for i in range(3)}
    publisher.say({}, told)
    for device, wanted in told.items():
        sealed = broker.retained[str(DeviceTopic(FLEET, device, "job"))]
        assert decode_instruction(opened(sealed, "job")) == wanted
    publisher.say({}, told)
    assert len(broker.log) == 3


def test_an_artifact_is_cleared_chunk_by_chunk(publisher: Publisher, broker: Broker) -> None:
    digest = publisher._blobs.put(DATA)
    publisher.say({digest: len(DATA)}, {})
    assert publisher.clear(digest, len(DATA))
    assert broker.retained == {}
    broker.connected = False
    assert not publisher.clear(digest, len(DATA))


def test_answers_are_signed_and_not_retained(publisher: Publisher, broker: Broker) -> None:
    ack = Accepted(transfer="t", round=3)
    publisher.answer("a", ack)
    assert broker.log == [str(DeviceTopic(FLEET, "a", "ack"))]
    assert decode_ack(opened(broker.last, "ack")) == ack


def test_the_code_of_a_refusal_goes_to_devices_that_have_said_that_they_read_it(
    publisher: Publisher, broker: Broker
) -> None:
    ack = Rejected(transfer="t", round=3, reason="late: round 3 is closed", why=RefusalReason.LATE)
    publisher.answer("a", ack)
    assert decode_ack(opened(broker.last, "ack")) == msgspec.structs.replace(ack, why=None)
    publisher.reads_codes("a", True)
    publisher.answer("a", ack)
    assert decode_ack(opened(broker.last, "ack")) == ack
    publisher.reads_codes("a", False)  # its card was flashed with an older edgestill
    publisher.answer("a", ack)
    assert decode_ack(opened(broker.last, "ack")).why is None


@pytest.mark.parametrize("damage", [None, b"", DATA[:-1] + b"x"], ids=["missing", "empty", "flipped"])
def test_a_damaged_model_is_named_once_and_not_published_and_the_others_are(
    publisher: Publisher, broker: Broker, caplog: pytest.LogCaptureFixture, damage: bytes | None
) -> None:
    bad, good = publisher._blobs.put(DATA), publisher._blobs.put(b"good")
    path = publisher._blobs.path(bad)
    path.unlink() if damage is None else path.write_bytes(damage)
    wanted = {bad: len(DATA), good: 4}, {"a": offer(model=bad), "b": offer(model=good)}
    for _ in range(3):
        publisher.say(*wanted)
    assert {str(parse(topic)) for topic in broker.retained} == {
        str(ModelChunk(FLEET, good, 0)),
        str(DeviceTopic(FLEET, "b", "job")),
    }
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"a model cannot be published: blob {bad[:12]}… in ")
    assert line.endswith("or go on from an older model with `edgestill model rollback`")
    path.write_bytes(DATA)  # put back from a backup
    publisher.say(*wanted)
    assert str(DeviceTopic(FLEET, "a", "job")) in broker.retained
