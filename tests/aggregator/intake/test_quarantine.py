"""A flood moves the aggregator's ears from all devices to those that behave, and back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from paho.mqtt.client import topic_matches_sub

from aggregator.intake.quarantine import FLOOD, HOLD_S, Quarantine
from wire.topics import aggregator_filters

pytestmark = pytest.mark.light
UP, STATE, ENROL = "edgestill/1/f/+/up/+/+", "edgestill/1/f/+/state", "edgestill/1/f/+/enrol"


class Ears:
    """What is subscribed to."""

    def __init__(self) -> None:
        self.filters = set(aggregator_filters("f"))
        self.connected = True
        self.quarantine = Quarantine("f", subscribe=self.subscribe, unsubscribe=self.unsubscribe)

    def subscribe(self, filters: Sequence[str]) -> bool:
        self.filters |= set(filters) if self.connected else set()
        return self.connected

    def unsubscribe(self, filters: Sequence[str]) -> bool:
        self.filters -= set(filters) if self.connected else set()
        return self.connected

    def hear(self, device: str, rest: str) -> bool:
        return any(topic_matches_sub(each, f"edgestill/1/f/{device}/{rest}") for each in self.filters)

    def look(self, now: float, bad: Sequence[str] = (), **dropped: int) -> None:
        self.quarantine.look(dropped, ["a", "b", "c"], bad, now)


def test_while_updates_are_flooded_only_the_devices_within_their_budgets_are_heard_on_that_topic() -> None:
    ears = Ears()
    ears.look(0.0, ["b"], up=FLOOD)
    assert [ears.hear(device, "up/t/0") for device in ("a", "b", "c", "nobody")] == [True, False, True, False]
    assert ears.hear("b", "state")


def test_a_few_dropped_messages_are_no_flood() -> None:
    ears = Ears()
    for now in range(100):
        ears.look(now / 4, ["b"], up=FLOOD - 1)
    assert ears.filters == set(aggregator_filters("f"))


def test_after_a_while_all_are_heard_again_by_the_one_filter() -> None:
    ears = Ears()
    ears.look(0.0, ["b"], up=FLOOD, state=FLOOD)
    assert {UP, STATE} & ears.filters == set()
    ears.look(HOLD_S - 0.1)
    assert UP not in ears.filters
    ears.look(HOLD_S + 0.1)
    assert ears.filters == set(aggregator_filters("f"))


def test_a_flood_that_is_still_there_is_held_twice_as_long() -> None:
    ears = Ears()
    ears.look(0.0, ["b"], up=FLOOD)
    ears.look(31.0)
    ears.look(31.5, ["b"], up=FLOOD)
    ears.look(31.5 + 1.9 * HOLD_S)
    assert UP not in ears.filters
    ears.look(31.6 + 2 * HOLD_S)
    assert UP in ears.filters
    ears.look(1000.0, ["b"], up=FLOOD)  # long after: the first again
    ears.look(1001.0 + HOLD_S)
    assert UP in ears.filters


def test_who_joins_in_is_put_out_too() -> None:
    ears = Ears()
    ears.look(0.0, ["b"], up=FLOOD)
    ears.look(1.0, ["b", "c"], up=FLOOD)
    assert [ears.hear(device, "up/t/0") for device in ("a", "b", "c")] == [True, False, False]


def test_requests_of_unknown_boards_are_not_heard_at_all_while_they_are_flooded() -> None:
    ears = Ears()
    ears.look(0.0, enrol=FLOOD)
    assert not ears.hear("board", "enrol")
    assert not ears.hear("a", "enrol")
    ears.look(HOLD_S + 0.1)
    assert ENROL in ears.filters


def test_without_a_connection_nothing_is_held_and_a_new_one_starts_with_all_filters() -> None:
    ears = Ears()
    ears.connected = False
    ears.look(0.0, ["b"], up=FLOOD)
    assert ears.quarantine._held == {}
    ears.connected = True
    ears.look(0.3, ["b"], up=FLOOD)
    assert UP not in ears.filters
    ears.filters = set(aggregator_filters("f"))
    ears.quarantine.forget()
    ears.look(HOLD_S + 1)
    assert ears.filters == set(aggregator_filters("f"))


def test_it_looks_four_times_a_second() -> None:
    quarantine = Ears().quarantine
    quarantine.look({}, [], (), 10.0)
    assert [quarantine.due(now) for now in (10.1, 10.24, 10.26)] == [False, False, True]


def test_kinds_that_it_has_no_filter_of_do_not_matter() -> None:
    ears = Ears()
    ears.look(0.0, nonsense=10**6)
    assert ears.filters == set(aggregator_filters("f"))
