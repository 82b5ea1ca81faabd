"""Whose running statistics an average has."""

import torch

from aggregator.fusion.averages.batchnorm import statistics_of_last
from aggregator.fusion.averages.mean import weighted_mean
from aggregator.fusion.numerics.vectors import is_statistic
from tests.aggregator.fusion.views import view_of


def state(w: float, mean: float) -> dict[str, torch.Tensor]:
    return {
        "bn.weight": torch.tensor([w]),
        "bn.running_mean": torch.tensor([mean]),
        "bn.running_var": torch.tensor([10 * mean]),
    }


def test_running_statistics_are_known_by_name() -> None:
    assert is_statistic("extractor.body.norm1.running_mean")
    assert is_statistic("running_var")
    assert not is_statistic("extractor.body.norm1.weight")
    assert not is_statistic("running_mean.weight")


def test_last_has_the_statistics_of_the_last_update_and_the_mean_of_the_rest() -> None:
    view = view_of([state(1, 1), state(2, 2), state(6, 3)])
    average = weighted_mean([u.state() for u in view.updates], [1, 1, 1])
    last = statistics_of_last(view, [1, 1, 1], average)
    assert {name: w.item() for name, w in last.items()} == {
        "bn.weight": 3.0,
        "bn.running_mean": 3.0,
        "bn.running_var": 30.0,
    }
    assert average["bn.running_mean"].item() == 2.0  # untouched


def test_a_device_of_weight_zero_is_not_the_last() -> None:
    view = view_of([state(1, 1), state(2, 2), state(6, 3)])
    last = statistics_of_last(view, [1, 1, 0], state(0, 0))
    assert last["bn.running_mean"].item() == 2.0


def test_without_statistics_no_update_is_read() -> None:
    view = view_of([{"w": torch.ones(1)}])
    average = {"w": torch.zeros(1)}
    assert statistics_of_last(view, [1], average) is average
