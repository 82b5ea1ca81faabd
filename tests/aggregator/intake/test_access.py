"""Who may speak."""

from __future__ import annotations

import pytest

from aggregator.intake.access import Gate
from core.errors import EnvelopeError, SignatureError
from tests.aggregator.scripted import FLEET, key_of
from wire.codec import encode_message
from wire.envelope import seal
from wire.messages import State
from wire.topics import DeviceTopic

pytestmark = pytest.mark.light
ONLINE = State(status="online", session=2)
TOPIC = DeviceTopic(FLEET, "pi-07", "state")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def gate(clock: Clock | None = None) -> Gate:
    keys = {"pi-07": key_of("pi-07").public_key()}
    return Gate(keys, fleet=FLEET, garbage_before_mute=3, mute_s=60, now=clock or Clock())


def said(sender: str = "pi-07", kind: str = "state", key: str = "pi-07") -> bytes:
    return seal(encode_message(ONLINE), key=key_of(key), kind=kind, sender=sender, fleet=FLEET)


def test_a_known_device_is_understood() -> None:
    assert gate().open(TOPIC, said()) == ONLINE


def test_strangers_empty_messages_and_what_flows_down_are_passed_over() -> None:
    assert gate().open(DeviceTopic(FLEET, "pi-99", "state"), said()) is None
    assert gate().open(TOPIC, b"") is None
    assert gate().open(DeviceTopic(FLEET, "pi-07", "job"), said()) is None


@pytest.mark.parametrize(
    ("payload", "error"),
    [(said(key="pi-08"), SignatureError), (said(kind="about"), EnvelopeError), (said(sender="pi-08"), EnvelopeError)],
)
def test_what_is_not_from_that_device_or_of_that_kind_is_an_error(payload: bytes, error: type) -> None:
    with pytest.raises(error):
        gate().open(TOPIC, payload)


def test_a_device_that_only_sends_garbage_is_muted_for_a_while() -> None:
    clock = Clock()
    watched = gate(clock)
    assert [watched.garbage("pi-07") for _ in range(3)] == [None, None, 160.0]
    assert watched.key("pi-07") is None
    assert watched.open(TOPIC, said()) is None
    clock.now = 160.0
    assert watched.open(TOPIC, said()) == ONLINE


def test_something_of_use_in_between_keeps_a_device_from_being_muted() -> None:
    watched = gate()
    for _ in range(4):
        watched.garbage("pi-07")
        watched.garbage("pi-07")
        watched.good("pi-07")
    assert watched.key("pi-07") is not None
