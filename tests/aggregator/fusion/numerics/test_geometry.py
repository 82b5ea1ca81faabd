"""Distances and products of updates, worked by hand."""

import pytest
import torch

from aggregator.fusion.numerics.geometry import distances_to, gram, squared_distances
from tests.aggregator.fusion.views import points


def test_names_in_another_order_are_the_same_vector() -> None:
    first = {"a": torch.tensor([1.0]), "b": torch.tensor([2.0])}
    second = {"b": torch.tensor([2.0]), "a": torch.tensor([1.0])}
    assert squared_distances([first, second]).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("values", [3, 2**26])
def test_distances_and_products_are_those_worked_by_hand(values: int) -> None:
    states = points([0, 0], [3, 4], [0, 1])
    squares = torch.tensor([[0, 25, 1], [25, 0, 18], [1, 18, 0]], dtype=torch.float64)
    assert torch.allclose(squared_distances(states, values=values), squares, rtol=1e-14, atol=0)
    assert gram(states, values=values).tolist() == [[0, 0, 0], [0, 25, 4], [0, 4, 1]]
    assert distances_to(states[0], states).tolist() == [0, 5, 1]


def test_huge_values_keep_their_order() -> None:
    far = squared_distances(points([1e30, 0], [3e30, 0], [0, 0]))
    assert far[0, 1].item() == pytest.approx(4e60, rel=1e-6)
    assert far[0, 2].item() == pytest.approx(1e60, rel=1e-6)
    assert gram(points([3e38], [3e38]))[0, 1].item() == pytest.approx(9e76, rel=1e-6)
    assert distances_to({"w": torch.zeros(1)}, points([3e38])).item() == pytest.approx(3e38, rel=1e-6)


def test_equal_updates_are_at_distance_zero_exactly() -> None:
    state = {"w": torch.randn(1000, generator=torch.Generator().manual_seed(0)) * 1e4}
    assert squared_distances([state, dict(state)]).abs().max() == 0


def test_a_centre_is_taken_off_every_state() -> None:
    states = points([1, 1], [4, 5])
    assert gram(states, centre={"w": torch.tensor([1.0, 1.0])}).tolist() == [[0, 0], [0, 25]]
    assert distances_to({"w": torch.tensor([1.0, 1.0])}, states).tolist() == [0, 5]


def with_statistics(weight: float, variance: float) -> dict[str, torch.Tensor]:
    return {"bn.weight": torch.tensor([weight]), "bn.running_var": torch.tensor([variance])}


def test_parameters_and_statistics_count_in_units_of_their_own() -> None:
    # squares of the weights are 1 4 1, of the variances 10,000 times that; units 1 and 10,000
    states = [with_statistics(0, 0), with_statistics(1, 100), with_statistics(2, 200)]
    assert squared_distances(states).tolist() == [[0, 2, 8], [2, 0, 2], [8, 2, 0]]
    # from the origin: 0 1 4 and 0 1 4
    assert distances_to(states[0], states).square().tolist() == pytest.approx([0, 2, 8])
    assert gram(states)[1].tolist() == [0, 2, 4]


def test_statistics_that_are_all_equal_change_nothing() -> None:
    states = [with_statistics(0, 7), with_statistics(3, 7)]
    assert squared_distances(states).tolist() == [[0, 1], [1, 0]]
    assert squared_distances(states[:1]).tolist() == [[0]]
    assert distances_to(states[0], states[:1]).tolist() == [0]


def test_large_variances_do_not_hide_a_flipped_network() -> None:
    seed = torch.Generator().manual_seed(0)
    base, variances = 0.1 * torch.randn(200, generator=seed), 500 * torch.rand(20, generator=seed)
    states = []
    for k in range(9):
        sign = -1 if k == 4 else 1
        weight = sign * base + 0.01 * torch.randn(200, generator=seed)
        states.append({"w": weight, "bn.running_var": variances + 20 * torch.rand(20, generator=seed)})
    assert squared_distances(states).sum(1).argmax().item() == 4
    products = gram(states)
    cosine = products / products.diagonal().sqrt().outer(products.diagonal().sqrt())
    assert cosine[0, 4] < 0.1 < 0.9 < cosine[0, 1]


def test_mad_statistics_are_far_off() -> None:
    states = [with_statistics(1 + 0.1 * k, 1 + 0.1 * k) for k in range(6)]
    states[2]["bn.running_var"] = torch.tensor([1e6])
    assert squared_distances(states).sum(1).argmax().item() == 2
