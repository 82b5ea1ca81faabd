"""Accuracy on a device's own slice, worked by hand and against samples that are there."""

import numpy as np
import pytest

from aggregator.evaluate import Score
from fleet.simulation.own_slice import OwnScore, extremes, own_score, slice_accuracy, spread_of


def test_classes_count_as_often_as_the_device_has_them() -> None:
    assert slice_accuracy([8, 5], [10, 10], [30, 10]) == pytest.approx(0.75 * 0.8 + 0.25 * 0.5)
    assert slice_accuracy([8, 5], [10, 10], [0, 7]) == 0.5


def test_classes_that_the_test_set_lacks_are_left_out_and_the_shares_renormalised() -> None:
    assert slice_accuracy([9, 0, 5], [10, 0, 10], [3, 1000, 1]) == pytest.approx(0.75 * 0.9 + 0.25 * 0.5)
    assert slice_accuracy([0, 9], [0, 10], [5, 0]) is None


def test_it_is_the_mean_over_a_test_set_drawn_like_the_device_s_labels() -> None:
    """A test set in which the classes are as often as the device has them: plain accuracy on it is the same number."""
    rng = np.random.default_rng(20)
    y = np.repeat([0, 1, 2], [40, 40, 40])
    right = rng.random(len(y)) < 0.6
    correct = [int(right[y == c].sum()) for c in range(3)]
    labels = [4, 1, 3]
    drawn = np.concatenate([np.tile(right[y == c], labels[c]) for c in range(3)])
    assert slice_accuracy(correct, [40, 40, 40], labels) == pytest.approx(drawn.mean())


def test_one_pass_gives_both_numbers() -> None:
    score = own_score(Score(0.65, 1.0, (8, 5)), [10, 10], [1, 0])
    assert (score.own, score.whole) == (0.8, 0.65)
    assert score.to_json() == {"own_accuracy": 0.8, "whole_accuracy": 0.65}


def test_a_prototype_has_mean_worst_and_best_and_nothing_where_nobody_answered() -> None:
    spread = spread_of([OwnScore(0.5, 0.2), OwnScore(1.0, 0.4), OwnScore(None, 0.9)])
    assert spread == pytest.approx(
        {
            "own_accuracy": 0.75,
            "own_worst": 0.5,
            "own_best": 1.0,
            "whole_accuracy": 0.5,
            "whole_worst": 0.2,
            "whole_best": 0.9,
        }
    )
    assert spread_of([]) == {}


def test_extremes_name_their_devices() -> None:
    devices = {"b": {"own_accuracy": 0.9}, "a": {"own_accuracy": 0.3}, "c": {"own_accuracy": None}, "d": {"weight": 1}}
    found = extremes(devices, "own_accuracy")
    assert found is not None
    assert (found.worst_device, found.best_device, found.mean) == ("a", "b", pytest.approx(0.6))
    assert extremes(devices, "whole_accuracy") is None
