"""FedBuff's schedule."""

from __future__ import annotations

import itertools
import math

import pytest

from core.errors import ConfigError
from fleet.virtual.buffered import Flush, flushes


def first(count: int, devices: str, seconds: dict[str, float], **how: float) -> list[Flush]:
    made = flushes(
        list(devices),
        lambda device, turn, now: now + seconds[device],
        concurrency=int(how.get("concurrency", len(devices))),
        buffer=int(how["buffer"]),
        patience=how.get("patience", 1e9),
        seed=int(how.get("seed", 0)),
        max_staleness=how.get("max_staleness", math.inf),
    )
    return list(itertools.islice(made, count))


def test_the_fast_do_not_wait_for_the_slow_whose_updates_are_stale() -> None:
    """a answers every 10 s, b every 35: two updates make a version."""
    one, two = first(2, "ab", {"a": 10, "b": 35}, buffer=2)
    assert [(x.device, x.version, x.arrived) for x in one.arrivals] == [("a", 0, 10), ("a", 0, 20)]
    assert (one.number, one.time) == (1, 20)
    assert [(x.device, x.version, x.arrived) for x in two.arrivals] == [("a", 1, 30), ("b", 0, 35)]
    assert two.time == 35
    assert [two.staleness(x) for x in two.arrivals] == [0, 1]
    assert [x.turn for x in (*one.arrivals, *two.arrivals)] == [1, 2, 3, 1]


def test_a_place_is_taken_by_another_device_at_once() -> None:
    made = first(30, "abcde", dict.fromkeys("abcde", 10.0), buffer=2, concurrency=2)
    assert [flush.time for flush in made] == [10.0 * n for n in range(1, 31)]
    counts = [sum(x.device == device for flush in made for x in flush.arrivals) for device in "abcde"]
    assert min(counts) > 5  # every one has its turns


def test_the_same_seed_gives_the_same_schedule() -> None:
    def drawn(seed: int) -> list[Flush]:
        return first(9, "abc", {"a": 3.0, "b": 5.0, "c": 11.0}, buffer=2, concurrency=2, seed=seed)

    assert drawn(0) == drawn(0)
    assert drawn(0) != drawn(1)


def test_a_device_that_is_not_heard_of_gives_up_its_place() -> None:
    made = first(3, "ab", {"a": 10, "b": math.inf}, buffer=1, concurrency=1, patience=25, seed=2)
    assert {x.device for flush in made for x in flush.arrivals} == {"a"}
    times = [flush.time for flush in made]
    assert all((b - a - 10) % 25 == 0 for a, b in itertools.pairwise([0.0, *times]))
    assert times[-1] > 30  # b was waited for at least once


def test_updates_that_are_too_old_are_not_used() -> None:
    """b answers after 35 s, when a has made three versions of one update each: too late for 2, in time for 3."""
    for most, used in ((2, {"a"}), (3, {"a", "b"})):
        made = first(5, "ab", {"a": 10, "b": 35}, buffer=1, max_staleness=most)
        assert {x.device for flush in made for x in flush.arrivals} == used


def test_what_cannot_run_is_refused() -> None:
    with pytest.raises(ConfigError, match="3 devices at a time; give 1 to 2"):
        first(1, "ab", {"a": 1, "b": 1}, buffer=1, concurrency=3)
    with pytest.raises(ConfigError, match="a buffer of 0"):
        first(1, "ab", {"a": 1, "b": 1}, buffer=0)
