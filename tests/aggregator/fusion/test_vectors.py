"""Updates as vectors: order, blocks, distances worked by hand."""

import pytest
import torch

from aggregator.fusion.vectors import blocks, distances_to, gram, squared_distances, to_state, to_vector
from tests.aggregator.fusion.views import points


def test_a_vector_turns_back_into_its_state() -> None:
    state = {"a": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "b": torch.tensor(5.0)}
    vector = to_vector(state, ["a", "b"])
    assert vector.tolist() == [1, 2, 3, 4, 5]
    back = to_state(vector, state)
    assert back["a"].tolist() == [[1, 2], [3, 4]]
    assert back["b"].shape == ()


def test_blocks_hold_no_more_values_than_they_may() -> None:
    states = points([1, 2, 3, 4, 5], [6, 7, 8, 9, 10])
    assert [b.tolist() for b in blocks(states, values=4)] == [[[1, 2], [6, 7]], [[3, 4], [8, 9]], [[5], [10]]]


def test_names_in_another_order_are_the_same_vector() -> None:
    first = {"a": torch.tensor([1.0]), "b": torch.tensor([2.0])}
    second = {"b": torch.tensor([2.0]), "a": torch.tensor([1.0])}
    assert squared_distances([first, second]).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("values", [3, 2**26])
def test_distances_and_products_are_those_worked_by_hand(values: int) -> None:
    states = points([0, 0], [3, 4], [0, 1])
    squares = torch.tensor([[0, 25, 1], [25, 0, 18], [1, 18, 0]], dtype=torch.float64)
    torch.testing.assert_close(squared_distances(states, values=values), squares, rtol=1e-14, atol=0)
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
