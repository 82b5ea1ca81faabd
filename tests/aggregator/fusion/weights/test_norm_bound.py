"""Who went too far is drawn back, by hand."""

from __future__ import annotations

import pytest
import torch

from aggregator.fusion.types import Received
from aggregator.fusion.weights.norm_bound import REACH, drawn_back, far_off

WEIGHT, MEAN = "extractor.fc.weight", "extractor.norm.running_mean"
PREVIOUS = {WEIGHT: torch.tensor([1.0, 1.0]), MEAN: torch.tensor([0.0])}


def sent(device: str, *weight: float, mean: float = 0.0) -> Received:
    state = {WEIGHT: torch.tensor(weight), MEAN: torch.tensor([mean])}
    return Received(device=device, num_examples=1, state=lambda: state)


NEAR = [sent("a", 1.0, 2.0), sent("b", 1.0, 3.0), sent("c", 0.0, 1.0)]  # at 1, 2 and 1: the median of four is 1.5


def test_beyond_the_reach_an_update_stops_at_it_and_keeps_its_direction() -> None:
    """At (301, 401) it is 500 away, in the direction (0.6, 0.8); five medians of 1.5 are 7.5."""
    updates = [*NEAR, sent("d", 301.0, 401.0, mean=1000.0)]
    *near, far = drawn_back(updates, PREVIOUS, 5.0)
    assert near == NEAR
    assert far.device == "d"
    assert far.state()[WEIGHT].tolist() == pytest.approx([1 + 4.5, 1 + 6.0])
    assert far.state()[MEAN].tolist() == pytest.approx([15.0])  # statistics go along
    assert updates[3].state()[WEIGHT].tolist() == [301.0, 401.0]  # what came is untouched


def test_within_the_reach_nothing_happens() -> None:
    updates = [*NEAR, sent("d", 1.0, 8.0)]  # 7 away
    assert drawn_back(updates, PREVIOUS) == updates
    assert REACH == 5.0


def test_running_statistics_are_no_distance() -> None:
    updates = [*NEAR, sent("d", 1.0, 2.0, mean=1e6)]
    assert drawn_back(updates, PREVIOUS) == updates


def test_of_two_nobody_is_in_the_middle_and_zero_switches_it_off() -> None:
    updates = [NEAR[0], sent("d", 1e6, 1.0)]
    assert drawn_back(updates, PREVIOUS) == updates
    updates = [*NEAR, sent("d", 1e6, 1.0)]
    assert drawn_back(updates, PREVIOUS, 0.0) == updates


def test_where_most_send_back_what_they_got_who_learned_is_not_drawn_to_them() -> None:
    updates = [sent("a", 1.0, 1.0), sent("b", 1.0, 1.0), sent("c", 1.0, 2.0)]
    assert drawn_back(updates, PREVIOUS) == updates


def test_squares_that_float32_cannot_hold_are_no_infinity() -> None:
    *_, far = drawn_back([*NEAR, sent("d", 1e30, 1.0)], PREVIOUS)
    assert far.state()[WEIGHT].tolist() == pytest.approx([8.5, 1.0], rel=1e-3)


def test_far_off_names_whom_drawn_back_draws_back() -> None:
    previous = {"w": torch.zeros(2)}
    updates = [
        Received(device=name, num_examples=1, state=lambda x=x: {"w": torch.tensor([x, 0.0])})
        for name, x in (("a", 1.0), ("b", 1.0), ("c", 4.0), ("d", 80.0))
    ]
    ((device, times),) = far_off(updates, previous, 5.0)
    assert (device, times) == ("d", pytest.approx(32.0))  # the median of 1, 1, 4 and 80 is 2.5
    assert far_off(updates, previous, 0.0) == []
    assert far_off(updates[:2], previous, 5.0) == []
