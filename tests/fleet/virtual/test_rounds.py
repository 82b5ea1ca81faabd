"""Rounds in virtual time, by the aggregator's engine."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from aggregator.rounds.state import Rules
from fleet.virtual.rounds import Collected, collect

THERE = {"a": "cnn:fp32", "b": "cnn:fp32", "c": "cnn:fp32", "d": "cnn:fp32"}


def run(times: Mapping[str, float], *, quorum: float = 0.5, deadline: float = 100, fraction: float = 1.0) -> Collected:
    rules = Rules(
        seed=0,
        prototypes=("cnn:fp32",),
        rounds=9,
        fraction=fraction,
        min_devices=2,
        quorum=quorum,
        deadline_s=deadline,
    )
    return collect(rules, 3, THERE, 1000.0, lambda invited: {device: 1000.0 + times[device] for device in invited})


def test_a_round_closes_with_its_last_answer() -> None:
    made = run({"a": 40, "b": 10, "c": 30, "d": 20})
    assert made.answered == ("b", "d", "c", "a")
    assert (made.opened, made.closed, made.late, made.lost, made.abandoned) == (1000.0, 1040.0, (), (), "")


def test_at_the_deadline_a_quorum_is_enough_and_the_others_are_late() -> None:
    made = run({"a": 40, "b": 10, "c": 130, "d": math.inf})
    assert (made.answered, made.late, made.lost, made.closed) == (("b", "a"), ("c",), ("d",), 1100.0)


def test_without_a_quorum_the_deadline_is_extended_once() -> None:
    made = run({"a": 40, "b": 150, "c": 250, "d": math.inf})
    assert (made.answered, made.closed, made.abandoned) == (("a", "b"), 1200.0, "")
    assert made.late == ("c",)


def test_then_the_round_is_abandoned() -> None:
    made = run({"a": 40, "b": 201, "c": math.inf, "d": math.inf})
    assert made.closed == 1200.0
    assert made.abandoned == "1 of 4 answered, 2 are a quorum"
    assert (made.answered, made.late, made.lost) == (("a",), ("b",), ("c", "d"))


def test_a_part_of_the_devices_is_invited() -> None:
    made = run(dict.fromkeys(THERE, 5.0), fraction=0.5)
    assert len(made.invited) == len(made.answered) == 2
    assert made.closed == 1005.0


@pytest.mark.parametrize("count", [0, 1])
def test_with_too_few_devices_no_round_is_opened(count: int) -> None:
    rules = Rules(seed=0, prototypes=("cnn:fp32",), rounds=9, fraction=1.0, min_devices=2, quorum=0.5, deadline_s=100)
    made = collect(rules, 1, dict(list(THERE.items())[:count]), 7.0, lambda invited: {})
    assert made.abandoned == f"{count} devices are available, 2 are needed"
    assert (made.invited, made.closed) == ((), 7.0)
