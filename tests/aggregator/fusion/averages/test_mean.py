"""The mean of the devices' tensors, worked by hand."""

from dataclasses import replace

import pytest
import torch

from aggregator.fusion.averages.mean import mean, weighted_mean
from aggregator.fusion.types import Received
from core.errors import RoundError
from tests.aggregator.fusion.views import points, view_of


def test_the_mean_is_weighted_by_examples() -> None:
    updates = [{"w": torch.tensor([1.0, 0.0])}, {"w": torch.tensor([4.0, 8.0])}]
    assert weighted_mean(updates, [3, 1])["w"].tolist() == [1.75, 2.0]


def test_inputs_are_untouched_and_half_precision_is_summed_in_float() -> None:
    updates = [{"w": torch.ones(2, dtype=torch.float16)}, {"w": torch.ones(2, dtype=torch.float16)}]
    mean = weighted_mean(updates, [1, 1])
    mean["w"].add_(5)
    assert mean["w"].dtype == torch.float32
    assert updates[0]["w"].tolist() == [1.0, 1.0]


def test_batchnorm_statistics_are_averaged_like_parameters() -> None:
    updates = [{"bn.running_var": torch.tensor([2.0])}, {"bn.running_var": torch.tensor([4.0])}]
    assert weighted_mean(updates, [1, 1])["bn.running_var"].item() == 3.0


def test_the_sum_runs_in_the_given_order_from_zero() -> None:
    generator = torch.Generator().manual_seed(0)
    states = [{"w": torch.randn(50, generator=generator)} for _ in range(7)]
    examples = [3, 1, 4, 1, 5, 9, 2]
    expected = torch.zeros(50)
    for state, n in zip(states, examples, strict=True):
        expected.add_(state["w"], alpha=n / 25.0)
    assert torch.equal(weighted_mean(states, examples)["w"], expected)


def test_the_part_reads_every_update_once_and_those_of_weight_zero_never() -> None:
    reads: list[str] = []

    def reader(device: str, value: float) -> Received:
        def state() -> dict[str, torch.Tensor]:
            reads.append(device)
            return {"w": torch.tensor([value])}

        return Received(device=device, num_examples=1, state=state)

    updates = [reader("a", 1.0), reader("b", float("inf")), reader("c", 4.0)]
    view = replace(view_of(points([0])), updates=updates)
    assert mean(view, [2, 0, 1])["w"].tolist() == [2.0]
    assert reads == ["a", "c"]


def test_where_nobody_is_trusted_the_model_stays() -> None:
    view = view_of(points([1], [2]), previous={"w": torch.tensor([7.0])})
    kept = mean(view, [0, 0])
    assert kept["w"].tolist() == [7.0]
    assert kept["w"] is not view.previous["w"]


@pytest.mark.parametrize(
    ("updates", "weights"),
    [
        ([], []),
        ([{"w": torch.ones(1)}], [1, 2]),
        ([{"w": torch.ones(1)}], [0]),
        ([{"w": torch.ones(1)}, {"v": torch.ones(1)}], [1, 1]),
    ],
)
def test_what_cannot_be_averaged_is_refused(updates: list, weights: list) -> None:
    with pytest.raises(RoundError):
        weighted_mean(updates, weights)
