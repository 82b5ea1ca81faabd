"""States that a connection has not brought are asked for one by one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from aggregator.intake.retained_states import BATCH, EVERY_S, FIRST_S, RetainedStates

pytestmark = pytest.mark.light


class Broker:
    """The subscriptions of one connection."""

    def __init__(self) -> None:
        self.topics: list[str] = []

    def subscribe(self, topics: Sequence[str]) -> bool:
        self.topics += topics
        return True

    def unsubscribe(self, topics: Sequence[str]) -> bool:
        for topic in topics:
            self.topics.remove(topic)
        return True


@pytest.fixture
def server() -> Broker:
    return Broker()


@pytest.fixture
def states(server: Broker) -> RetainedStates:
    return RetainedStates("garden", subscribe=server.subscribe, unsubscribe=server.unsubscribe)


def test_nothing_is_asked_before_the_broker_had_time(states: RetainedStates, server: Broker) -> None:
    states.ask({"pi-1"}, 1e9)  # not connected
    states.connected(100.0)
    states.ask({"pi-1"}, 99.9 + FIRST_S)
    assert server.topics == []
    states.ask({"pi-2", "pi-1"}, 100.0 + FIRST_S)
    assert server.topics == ["edgestill/1/garden/pi-1/state", "edgestill/1/garden/pi-2/state"]


def test_who_has_no_state_is_asked_once_and_the_subscription_ends(states: RetainedStates, server: Broker) -> None:
    states.connected(100.0)
    states.ask({"pi-1"}, 102.0)
    states.ask({"pi-1"}, 102.0 + EVERY_S)
    assert server.topics == []
    states.ask({"pi-1", "pi-2"}, 1e9)
    assert server.topics == []


def test_many_are_asked_in_batches_and_a_new_connection_begins_again(states: RetainedStates, server: Broker) -> None:
    devices = {f"pi-{number:04}" for number in range(2 * BATCH + 1)}
    states.connected(0.0)
    seen = []
    for turn in range(4):
        states.ask(devices, FIRST_S + turn * EVERY_S)
        seen.append(len(server.topics))
    assert seen == [BATCH, BATCH, 1, 0]
    states.connected(50.0)
    states.ask(devices, 50.0 + FIRST_S)
    assert len(server.topics) == BATCH
