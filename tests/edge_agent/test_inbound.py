"""Whatever an aggregator or a broker sends, the agent goes on: it is refused in one line, or makes sense.

Messages are mutated by their structure and signed with the aggregator's real key, as those of an older or newer
aggregator would be; a broker, which cannot sign, has bytes, other keys, and what it has recorded.
"""

import errno
import logging
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edge_agent.child.sample_watch import SampleWatch
from edge_agent.config import read_agent_config
from edge_agent.protocol.agent import Phase
from edge_agent.service import Service
from tests.edge_agent.scripted import (
    DEVICE,
    DIGEST,
    EPOCH,
    FLEET,
    KEY,
    PROTOTYPE,
    SEALED,
    ScriptedAggregator,
    make_job,
    make_offer,
    write_device,
)
from transport.retained_check import BY_NAME_S, FIRST_S
from wire.codec import encode_message
from wire.envelope import seal
from wire.ids import AGGREGATOR
from wire.keys import generate_key, load_private_key
from wire.messages import Accepted, Desired, Message, Missing, Rejected, State
from wire.topics import DeviceTopic, ModelChunk

CASES = 500
DEEP: Any = []
for _ in range(60):
    DEEP = [DEEP]
VALUES: list[Any] = [
    *(None, True, False, -1, 0, 1, 2, 2**31, 2**32, 2**53, 2**63, 2**64 - 1, -(2**63), 0.0, -0.5, 1e308),
    *(float("inf"), float("nan"), "", "x", "x" * 300, "\x00", "é\u202e", "0" * 64, "f" * 64, "cnn:w1", "pi-2", "-"),
    *(b"", b"\xff" * 20, [], [[]], [[0, 1]], [1, [2, 3]], {}, {"a": 1}, {"train.threads": "2"}, {"log.level": "x"}),
    *(DEEP, list(range(50)), {"k" * 300: "v" * 300}, {1: 2}),
]
EXAMPLES: dict[str, list[Message]] = {
    "job": [make_job(DIGEST), make_job("1" * 64, 3), make_offer("2" * 64), make_offer("3" * 64, 5)],
    "ack": [
        Accepted(transfer="t", round=1),
        Rejected(transfer="t", round=2, reason="late"),
        Missing(transfer="t", ranges=((0, 1),)),
    ],
    "desired": [Desired(device=DEVICE, version=3, settings={"train.threads": "2"}), Desired(device=DEVICE, version=4)],
    "state": [State(status="lost", session=4), State(status="online", session=900)],
}


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Service]:
    monkeypatch.setattr(SampleWatch, "wait", lambda _: None)
    made = Service(read_agent_config(write_device(tmp_path / "pi", 1)))
    monkeypatch.setattr(logging.getLogger("edgestill"), "propagate", True)
    caplog.set_level(logging.WARNING, "edgestill")
    yield made
    made.store.close()


def mutated(rng: random.Random, message: Message) -> bytes:
    """The message's array with one to three elements replaced, dropped, doubled, swapped or added, at any depth."""
    fields: list[Any] = msgspec.msgpack.decode(encode_message(message))
    for _ in range(rng.randint(1, 3)):
        inner = fields
        while rng.random() < 0.3 and (lists := [item for item in inner if isinstance(item, list) and item]):
            inner = rng.choice(lists)
        at = rng.randrange(len(inner)) if inner else 0
        match rng.randrange(6):
            case 0:
                inner.insert(at, deepcopy(rng.choice(VALUES)))
            case 1 if inner:
                del inner[at]
            case 2 if inner:
                inner[at], inner[-1] = inner[-1], inner[at]
            case _ if inner:
                inner[at] = deepcopy(rng.choice(VALUES))
    return msgspec.msgpack.encode(fields)


def complaints(caplog: pytest.LogCaptureFixture) -> Counter[str]:
    """What was logged, by kind; every line is one of the expected kinds."""
    heard: Counter[str] = Counter()
    for record in caplog.records:
        text = record.getMessage()
        assert "please report it" not in text, text
        assert record.exc_info is None
        heard[re.sub(r"'.*?'|`.*?`|\d+", "_", text)[:60]] += 1
    return heard


def still_works(service: Service) -> None:
    """The next job in order is followed."""
    newest = service.store.newest
    service._receive(str(DeviceTopic(FLEET, DEVICE, "job")), b"")
    assert service._agent.phase is Phase.IDLE
    job = make_job("9" * 64, max(newest.round, 1), epoch=newest.epoch or EPOCH, number=newest.numbers.get(PROTOTYPE, 1))
    service._receive(str(DeviceTopic(FLEET, DEVICE, "job")), ScriptedAggregator.sealed(job, "job"))
    assert service._agent.phase is Phase.FETCHING
    service._link.wake()
    service._turn()


@pytest.mark.parametrize("kind", EXAMPLES)
def test_500_mutated_messages_signed_by_the_real_key_end_nothing(
    service: Service, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(kind)
    mine = load_private_key(service.config.private_key)
    key, sender = (mine, DEVICE) if kind == "state" else (KEY, AGGREGATOR)
    for _ in range(CASES):
        payload = mutated(rng, rng.choice(EXAMPLES[kind]))
        sealed = seal(payload, key=key, kind=kind, sender=sender, fleet=FLEET, round=rng.choice([0, 1, 2**32 - 1]))
        service._receive(str(DeviceTopic(FLEET, DEVICE, kind)), sealed)
    assert len(complaints(caplog)) > 3, complaints(caplog)
    still_works(service)


def test_what_a_broker_can_make_without_a_key_ends_nothing(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    rng = random.Random(0)
    job = ScriptedAggregator.sealed(make_job("1" * 64), "job")
    forged = seal(encode_message(make_job("1" * 64)), key=generate_key(), kind="job", sender=AGGREGATOR, fleet=FLEET)
    junk = [b"", b"\x00", b"\x02" * 70, bytes(300_000), b"\xff" * 80, forged, job[:-1], job + b"\0", job[1:], SEALED]
    leaves = ("job", "ack", "desired", "state", "enrolled", "about", "metrics", "reported", "predict")
    topics = [str(DeviceTopic(FLEET, DEVICE, leaf)) for leaf in leaves]
    topics += ["", "/", "edgestill/1", "#", "edgestill/2/f/pi-1/job", f"edgestill/1/{FLEET}/pi-2/job", "é\x00" * 40]
    topics += [str(ModelChunk(FLEET, "1" * 64, n)) for n in (0, 1, 65535)]
    for _ in range(CASES):
        payload = rng.choice(junk)
        if rng.random() < 0.5 and payload:
            at = rng.randrange(len(payload))
            payload = payload[:at] + rng.randbytes(rng.randint(0, 5)) + payload[at + rng.randint(0, 5) :]
        service._receive(rng.choice(topics), payload)
    complaints(caplog)
    assert service.store.newest.epoch in (0, EPOCH)  # EPOCH: the real job came through unaltered
    still_works(service)


def test_junk_chunks_of_a_wanted_model_end_nothing_and_the_right_ones_still_make_it(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(1)
    service._receive(str(DeviceTopic(FLEET, DEVICE, "job")), ScriptedAggregator.sealed(make_job(DIGEST), "job"))
    good = ScriptedAggregator.cut(SEALED)[1]
    claims = [(b"", 1), (b"j" * 400, 1), (b"j" * 400, 400), (b"j" * 5000, 1024), (SEALED, 700)]
    chunks = [c for data, size in claims for c in ScriptedAggregator.cut(data, size, DIGEST)[1][:20]]
    for _ in range(CASES):
        payload = rng.choice([*good, *chunks])
        if rng.random() < 0.5:
            at = rng.randrange(len(payload))
            payload = payload[:at] + rng.randbytes(rng.randint(0, 4)) + payload[at + rng.randint(0, 4) :]
        service._receive(str(ModelChunk(FLEET, DIGEST, rng.randrange(3))), payload)
    complaints(caplog)
    for _ in range(3):  # a model of junk is thrown away after it was checked
        for n, chunk in enumerate(good):
            service._receive(str(ModelChunk(FLEET, DIGEST, n)), chunk)
    assert service.store.models.path(DIGEST).read_bytes() == SEALED


@pytest.mark.parametrize("raised", [ValueError("odd"), KeyError("x"), RecursionError(), MemoryError()])
def test_a_fault_of_ours_costs_the_message_that_found_it(
    service: Service, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, raised: Exception
) -> None:
    def fail(*_: object) -> None:
        raise raised

    topic = str(DeviceTopic(FLEET, DEVICE, "job"))
    faults: list[tuple[Any, str]] = [(service._agent, "handle"), (service._mail, "read_job"), (service, "_look")]
    for number, (where, name) in enumerate(faults):
        caplog.clear()
        with monkeypatch.context() as patched:
            patched.setattr(where, name, fail)
            service._receive(topic, ScriptedAggregator.sealed(make_job("1" * 64, number + 2), "job"))
        (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert type(raised).__name__ in line
        assert "passed over" in line
    caplog.clear()
    still_works(service)


def test_a_fault_in_the_loop_is_told_and_the_loop_goes_on(
    service: Service, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        if turns == 3:
            service.stop()
            return
        raise RuntimeError("a bug")

    monkeypatch.setattr(service, "_turn", turn)
    monkeypatch.setattr("edge_agent.service.FAULT_S", 0.0)
    assert service.run() == 0
    assert caplog.text.count("a turn of the agent: RuntimeError: a bug") == 2


def test_what_is_the_newest_is_written_as_soon_as_the_disk_takes_it(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    job = make_job("1" * 64)
    with monkeypatch.context() as patched:
        patched.setattr("edge_agent.state.store.write_atomic", full)
        service._receive(str(DeviceTopic(FLEET, DEVICE, "job")), ScriptedAggregator.sealed(job, "job"))
        service._try_again()
    assert caplog.text.count("No space left on device") == 2
    assert service._agent.phase is Phase.FETCHING
    assert service.store.newest.epoch == 0
    service._following.retry_at = 0.0
    service._try_again()
    assert service.store.newest.epoch == EPOCH


@pytest.mark.parametrize("kept", [True, False])
def test_a_broker_that_keeps_no_retained_messages_is_one_warning(
    service: Service, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(service._broker, "_subscribe", asked.append)
    topic, online = service._mail.state(State(status="online", session=service._session))
    for _ in range(2):  # an announcement and its repetition
        service._receive(topic, online)
    now = time.monotonic()
    service._check_broker(now + FIRST_S)
    assert asked == [[topic]]
    if kept:
        service._broker.heard(topic, True, now + FIRST_S)
    for later in (FIRST_S, 2 * BY_NAME_S, 4 * BY_NAME_S):
        service._check_broker(now + later + 1)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == (0 if kept else 1)
    assert kept or "sends retained messages to no subscription; jobs, models and settings need that" in lines[0]
