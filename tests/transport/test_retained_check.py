"""What a broker does with retained messages is found by asking, in order, on real brokers and by the clock."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from tests.brokers import Broker
from tests.transport.events import eventually, wait_for
from transport.link import Connected, Link, Received
from transport.retained_check import BY_NAME_S, FIRST_S, PATTERN_S, Delivery, RetainedCheck

pytestmark = pytest.mark.light
TOPIC, PATTERN = "t/own", "t/+"


class Asked:
    """The subscriptions of one connection, in order."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def subscribe(self, topics: Sequence[str]) -> bool:
        self.steps += [f"+{topic}" for topic in topics]
        return True

    def unsubscribe(self, topics: Sequence[str]) -> bool:
        self.steps += [f"-{topic}" for topic in topics]
        return True


def check(asked: Asked, pattern: str | None = PATTERN, *, ends: bool = True) -> RetainedCheck:
    return RetainedCheck(
        TOPIC, pattern=pattern, subscribe=asked.subscribe, unsubscribe=asked.unsubscribe if ends else None
    )


def test_a_retained_message_on_the_pattern_ends_it() -> None:
    asked = Asked()
    probe = check(asked)
    assert probe.poll(1e9) is None  # not begun
    probe.begin(0.0)
    assert probe.poll(FIRST_S / 2) is None
    assert asked.steps == []
    assert probe.poll(FIRST_S) is None
    assert probe.heard(TOPIC, False, FIRST_S)  # published just now: it proves nothing
    assert not probe.heard("t/other", True, FIRST_S)
    assert probe.poll(FIRST_S) is None
    assert probe.heard(TOPIC, True, FIRST_S)
    assert probe.poll(FIRST_S) is Delivery.ALL
    assert asked.steps == [f"+{PATTERN}", f"-{PATTERN}"]
    assert probe.poll(1e9) is None


def test_one_that_comes_by_name_alone_and_one_that_never_comes() -> None:
    for comes, finding in ((True, Delivery.BY_NAME), (False, Delivery.NONE)):
        asked = Asked()
        probe = check(asked)
        probe.begin(0.0)
        probe.poll(FIRST_S)
        assert probe.poll(FIRST_S + PATTERN_S) is None
        probe.heard(TOPIC, comes, 10.0)
        assert probe.poll(FIRST_S + PATTERN_S + BY_NAME_S) is finding
        assert asked.steps == [f"+{PATTERN}", f"-{PATTERN}", f"+{TOPIC}", f"-{TOPIC}"]


def test_without_a_pattern_the_subscription_is_made_again_and_kept() -> None:
    asked = Asked()
    probe = check(asked, None, ends=False)
    probe.begin(0.0)
    probe.poll(FIRST_S)
    probe.heard(TOPIC, True, FIRST_S)
    assert probe.poll(FIRST_S) is Delivery.ALL
    assert asked.steps == [f"+{TOPIC}"]


def test_it_runs_once_on_a_connection_and_again_on_the_next() -> None:
    asked = Asked()
    probe = check(asked, None)
    probe.begin(0.0)
    probe.poll(FIRST_S)
    probe.begin(5.0)
    assert probe.poll(FIRST_S + BY_NAME_S) is Delivery.NONE
    probe.begin(50.0)
    assert probe.poll(1e9) is None
    probe.stop()
    probe.begin(60.0)
    assert probe.poll(1e9) is None
    assert asked.steps.count(f"+{TOPIC}") == 2


def test_real_brokers_are_told_apart(broker: Broker, request: pytest.FixtureRequest) -> None:
    by_name = "rabbitmq" in request.node.name
    with Link(broker.config, client_id="a", filters=[]) as link:
        wait_for(link, Connected)
        probe = RetainedCheck(TOPIC, pattern=PATTERN, subscribe=link.subscribe, unsubscribe=link.unsubscribe)
        assert link.publish(TOPIC, b"?", retain=True)
        assert eventually(lambda: link.pending() == 0)
        probe.begin(time.monotonic())
        assert found(link, probe) is (Delivery.BY_NAME if by_name else Delivery.ALL)
        again = RetainedCheck(TOPIC, subscribe=link.subscribe)
        again.begin(time.monotonic())
        assert found(link, again) is Delivery.ALL


def found(link: Link, probe: RetainedCheck) -> Delivery:
    findings: list[Delivery] = []

    def turn() -> bool:
        event = link.next_event(0.05)
        if isinstance(event, Received):
            probe.heard(event.topic, event.retained, time.monotonic())
        findings.extend(filter(None, [probe.poll(time.monotonic())]))
        return bool(findings)

    assert eventually(turn, 120.0)
    return findings[0]
