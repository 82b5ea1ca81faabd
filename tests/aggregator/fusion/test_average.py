"""The mean of the devices' tensors, worked by hand."""

import pytest
import torch

from aggregator.fusion.average import weighted_mean
from wire.errors import RoundError


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
