"""The coordinate-wise median, worked by hand."""

import pytest
import torch

from aggregator.fusion.averages.median import coordinate_median, median
from core.errors import RoundError
from tests.aggregator.fusion.views import points, view_of


def test_each_coordinate_has_its_own_median() -> None:
    assert coordinate_median(points([1, 9], [2, 7], [30, 8]))["w"].tolist() == [2, 8]


def test_of_an_even_number_it_is_the_lower_middle_one() -> None:
    assert coordinate_median(points([4], [1], [3], [2]))["w"].tolist() == [2]
    assert coordinate_median(points([5], [-5]))["w"].tolist() == [-5]


@pytest.mark.parametrize("values", [1, 7, 64, 10_000])
def test_blocks_of_coordinates_give_the_same_median(values: int) -> None:
    generator = torch.Generator().manual_seed(3)
    states = [{"a": torch.randn(4, 3, generator=generator), "b": torch.randn(5, generator=generator)} for _ in range(6)]
    found = coordinate_median(states, values=values)
    assert torch.equal(found["a"], torch.stack([s["a"] for s in states]).sort(0).values[2])
    assert torch.equal(found["b"], torch.stack([s["b"] for s in states]).sort(0).values[2])


def test_the_part_ignores_weights_except_zero() -> None:
    view = view_of(points([1], [2], [3], [400]))
    assert median(view, [100, 1, 1, 1])["w"].tolist() == [2]
    assert median(view, [0, 1, 1, 1])["w"].tolist() == [3]
    assert median(view, [0, 0, 0, 0])["w"].tolist() == [0]  # the published model


def test_the_number_of_weights_is_that_of_updates() -> None:
    with pytest.raises(RoundError, match="mlp:fp32: 1 weights of 2 updates"):
        median(view_of(points([1], [2])), [1])
