"""What the service does with a message that goes wrong: one line, a count, a mute; and with what was retained."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from aggregator.failed_installs import failed_installs
from aggregator.rounds.restore import restore
from aggregator.rounds.state import Seen
from aggregator.service import Service
from tests.aggregator.journals import HYPER
from tests.aggregator.running import Aggregator, wait_until
from tests.aggregator.scripted import FLEET, key_of, make_update, write_fleet
from tests.brokers import Broker, Mosquitto
from tests.fuzz import world
from tests.fuzz.cases import _whole as chunks_of
from tests.fuzz.office import LIMITS, Office, payload, prepare_state
from tests.transport.events import connected, wait_for
from transport.link import Link, Received
from wire.chunks import Content, encode_chunk
from wire.codec import encode_message
from wire.envelope import seal
from wire.ids import digest_of, transfer_id
from wire.messages import COMPUTE, About, DataState, Installing, Job, State
from wire.topics import DeviceTopic, UpdateChunk

DEVICE = "evil-0"
ERRORS = [ValueError("bad"), MemoryError(), RecursionError("deep"), KeyError("x"), AssertionError()]
OURS = [OSError("disk full"), sqlite3.OperationalError("locked"), sqlite3.IntegrityError("x")]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    office = Office(tmp_path)
    yield office.service
    office.close()


def topic(leaf: str, device: str = DEVICE) -> str:
    return str(DeviceTopic(FLEET, device, leaf))


def said(message: About | State, device: str = DEVICE) -> bytes:
    kind = "about" if isinstance(message, About) else "state"
    version = 3 if isinstance(message, About) and message.data is not None else None
    return seal(encode_message(message), key=key_of(device), kind=kind, sender=device, fleet=FLEET, version=version)


ABOUT = About(board="pi", prototype="cnn:fp32", precision="fp32", label_counts=(1, 2, 3))
ONLINE = State(status="online", session=1)


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_whatever_a_handler_raises_is_a_refusal_in_one_line_with_device_and_kind(
    service: Service, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(service.gate, "open", fail)
    with caplog.at_level(logging.WARNING, "edgestill.aggregator"):
        for _ in range(5):
            service.inbox.receive(topic("about"), said(ABOUT))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert lines[0].startswith(f"from 'evil-0': about: {type(error).__name__}")
    service.notes.keep(at_once=True)
    (row,) = [row for row in service.journal.devices() if row.id == DEVICE]
    assert row.refused == 5


def test_where_a_device_computes_is_noted_and_forgotten_when_it_does_not_say(service: Service) -> None:
    for versions, expected in (({COMPUTE: "cuda:0 (Orin)"}, "cuda:0 (Orin)"), ({}, "")):
        about = About(board="pi", prototype="cnn:fp32", precision="fp32", label_counts=(1,), versions=versions)
        service.inbox.receive(topic("about"), said(about))
        service.notes.keep(at_once=True)
        (row,) = [row for row in service.journal.devices() if row.id == DEVICE]
        assert row.compute == expected


@pytest.mark.parametrize("error", OURS, ids=repr)
def test_what_our_own_disk_does_is_not_the_devices_fault(
    service: Service, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(service.gate, "open", fail)
    monkeypatch.setattr(service.inbox.desk.uploads, "add", fail)
    with pytest.raises(type(error)):
        service.inbox.receive(topic("about"), said(ABOUT))
    with pytest.raises(type(error)):
        service.inbox.receive(*next(chunks_of(DEVICE, b"x" * 100)))
    assert not service.notes.bad


def test_a_device_that_repeats_it_is_muted(tmp_path: Path) -> None:
    service = Office(tmp_path).service
    service.gate._limit = 20
    for _ in range(25):
        service.inbox.receive(topic("about"), b"garbage")
    assert service.gate.key(DEVICE) is None
    assert service.notes.bad[DEVICE] == 20
    assert service.gate.key("evil-1") is not None
    service._end()


def test_a_device_that_is_muted_in_the_middle_of_a_round_is_not_awaited(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int, str]] = []
    monkeypatch.setattr(service.conductor, "gave_up", lambda *words: told.append(words))
    service.gate._limit = 20
    for _ in range(25):
        service.inbox.receive(topic("about"), b"garbage")
    assert told == [(DEVICE, service.conductor.number, "muted: it sends only garbage")]


def test_an_update_that_nobody_has_thought_of_is_answered_as_refused(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("aggregator.intake.acceptance.check_update", fail)
    for arrived in chunks_of(DEVICE, b"x" * 1000):
        service.inbox.receive(*arrived)
    assert [r.reason for r in service.inbox.desk._refused] == ["it cannot be read: MemoryError"]
    service.inbox.desk.flush()
    assert len(service.inbox.desk.uploads) == 0


def test_chunks_of_one_content_that_are_cut_in_two_ways_are_refused_and_begin_anew(service: Service) -> None:
    data = bytes(10_000)
    for size in (5000, 4096):
        content = Content(digest=digest_of(data), size=len(data), chunk_size=size)
        name = str(UpdateChunk(FLEET, DEVICE, transfer_id(content.digest), 0))
        service.inbox.receive(name, encode_chunk(content, 0, data[:size]))
    assert service.notes.bad[DEVICE] == 1
    assert len(service.inbox.desk.uploads) == 0


def test_a_device_without_samples_is_known_to_wait_also_after_a_restart(service: Service) -> None:
    data = DataState(waiting="waiting for samples in /p: 0 of 20", unknown={"x": 2}, lacks=("dog",))
    service.inbox.receive(topic("about"), said(msgspec.structs.replace(ABOUT, data=data)))
    service.notes.keep(at_once=True)
    journal = service.conductor.journal
    (row,) = [row for row in journal.devices() if row.id == DEVICE]
    assert row.samples == data
    rules = service.conductor.state.rules
    assert service.conductor.state.devices[DEVICE].waiting
    assert restore(journal, rules, [DEVICE], 0.0).devices[DEVICE].waiting
    service.inbox.receive(topic("about"), said(ABOUT))
    service.notes.keep(at_once=True)
    assert not service.conductor.state.devices[DEVICE].waiting
    assert not restore(journal, rules, [DEVICE], 0.0).devices[DEVICE].waiting


def test_label_counts_beyond_the_journals_integers_are_refused(service: Service) -> None:
    """As nobody of ours can say it: our own side refuses to make such a message."""
    about = About(board="pi", prototype="cnn:fp32", precision="fp32", label_counts=(1,))
    msgspec.structs.force_setattr(about, "label_counts", (2**53,) * 2000)
    payload = msgspec.msgpack.encode(about)
    sealed = seal(payload, key=key_of(DEVICE), kind="about", sender=DEVICE, fleet=FLEET)
    service.inbox.receive(topic("about"), sealed)
    assert service.notes.bad[DEVICE] == 1
    service.notes.keep(at_once=True)


def test_an_enrolment_never_mutes_the_device_whose_topic_it_came_on(service: Service) -> None:
    for n in range(100):
        service.inbox.receive(topic("enrol"), bytes([n]) * 200)
    assert service.gate.key(DEVICE) is not None
    assert not service.notes.bad


def test_retained_chunks_and_enrolments_are_not_read_and_what_a_device_is_still_is(service: Service) -> None:
    for arrived in chunks_of(DEVICE, b"x" * 1000):
        service.inbox.receive(*arrived, True)
    service.inbox.receive(topic("enrol", world.BOARD), b"x" * 200, True)
    assert len(service.inbox.desk.uploads) == 0
    assert not service.inbox.desk._refused
    assert not service.downlink.enrolments._looks._taken
    service.inbox.receive(topic("about"), said(ABOUT), True)
    service.inbox.receive(topic("state"), said(ONLINE), True)
    seen = service.conductor.state.devices[DEVICE]
    assert (seen.prototype, seen.status) == ("cnn:fp32", "online")


# on both brokers


def test_a_broker_tells_what_was_retained(broker: Broker) -> None:
    sender = connected(Link(broker.config, client_id="sender", filters=["other"]))
    sender.publish("kept/a", b"before", retain=True)
    wait_until(lambda: not sender.pending())
    with Link(broker.config, client_id="late", filters=["kept/a"]) as late:
        first = wait_for(late, Received)
        sender.publish("kept/a", b"after", retain=True)  # it is live for whoever listens already
        second = wait_for(late, Received)
    sender.stop()
    assert first == Received("kept/a", b"before", True)
    assert second == Received("kept/a", b"after", False)


def test_a_retained_update_is_not_read_at_a_restart_and_a_live_one_is(broker: Broker, tmp_path: Path) -> None:
    """The update is sound: read, it would be accepted."""
    prepare_state(tmp_path / "state", {DEVICE: "cnn:fp32", "evil-1": "cnn:w1"})
    names = f"!names = {list(world.PROTOTYPES)}".replace("'", '"')
    path = write_fleet(tmp_path, broker.config, [DEVICE, "evil-1"], prototypes=names, limits=LIMITS)
    job = Job(round=1, deadline=9.0, prototype="cnn:fp32", update="state", hyper=HYPER, model=world.digest("cnn:fp32"))
    sealed = make_update(DEVICE, job, payload(world.artifact("cnn:fp32")))
    arrived = list(chunks_of(DEVICE, sealed))
    with Link(broker.config, client_id=DEVICE, filters=["other"]) as link, Aggregator(path) as service:
        wait_until(lambda: link.connected)
        for name, data in arrived:
            link.publish(name, data, retain=True)
        wait_until(lambda: not link.pending())
        service.start()
        if isinstance(broker, Mosquitto):  # the embedded broker does not even retain it
            wait_until(lambda: service.log.exists() and "chunk: retained, not read" in service.log.read_text(), 120)
        else:
            wait_until(lambda: service.log.exists() and "connected to" in service.log.read_text(), 120)
        journal = service.journal()
        assert journal.updates(1) == []
        for name, data in arrived:
            link.publish(name, data)
        service.until(lambda journal: [row.device for row in journal.updates(1)] == [DEVICE])
        journal.close()
        assert service.end() == 0


def test_why_a_board_could_not_install_is_kept_if_it_has_said_so_itself_and_is_not_online(service: Service) -> None:
    def report(reason: str, number: int, signer: str = DEVICE) -> bytes:
        message = encode_message(Installing(number=number, reason=reason))
        return seal(message, key=key_of(signer), kind="installing", sender=DEVICE, fleet=FLEET)

    def known() -> dict[str, str]:
        service.installs.keep(at_once=True)
        return failed_installs(service.journal)

    service.inbox.receive(topic("installing"), report("forged", 9, "evil-1"))
    service.inbox.receive(topic("installing"), report("retained", 9), retained=True)
    service.inbox.receive(topic("installing"), b"")
    assert known() == {}
    recorded = report("no room", 10)
    service.inbox.receive(topic("installing"), recorded)
    assert known() == {DEVICE: "no room"}
    assert service.conductor.state.devices.get(DEVICE, Seen()).status != "online"  # it is invited to nothing
    service.inbox.receive(topic("state"), said(ONLINE))
    assert known() == {}
    service.inbox.receive(topic("installing"), report("while it runs", 11))
    service.inbox.receive(topic("state"), said(State(status="lost", session=1)))
    service.inbox.receive(topic("installing"), recorded)
    assert known() == {}
    service.inbox.receive(topic("installing"), report("once more", 12))
    assert known() == {DEVICE: "once more"}
