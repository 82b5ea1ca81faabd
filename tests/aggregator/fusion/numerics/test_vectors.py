"""Updates as vectors: order and blocks."""

import pytest
import torch

from aggregator.fusion.numerics.vectors import blocks, to_state, to_vector
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


def test_a_block_of_many_states_is_given_in_narrow_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aggregator.fusion.numerics.vectors.AT_ONCE", 4)
    states = points([1, 2, 3], [4, 5, 6])
    assert [b.tolist() for b in blocks(states)] == [[[1, 2], [4, 5]], [[3], [6]]]


def test_blocks_of_some_tensors_leave_the_others_out() -> None:
    states = [
        {"a": torch.tensor([1.0]), "b": torch.tensor([2.0])},
        {"a": torch.tensor([3.0]), "b": torch.tensor([4.0])},
    ]
    assert [b.tolist() for b in blocks(states, ["b"])] == [[[2], [4]]]
