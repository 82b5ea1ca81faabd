"""Who teaches one label alone, by hand."""

from __future__ import annotations

import pytest
import torch

from aggregator.fusion.types import Memory, Received
from aggregator.fusion.weights.single_label import CUT, PRIOR, leaning, mean_leaning, one_sided

#: Five classes; the median is 0 everywhere. One device has one label, one has two, the others are in the middle.
ONE, TWO = [4.0, -1.0, -1.0, -1.0, -1.0], [3.0, 3.0, -2.0, -2.0, -2.0]
REST = [[0.0] * 5] * 3
BIASES = torch.tensor([ONE, TWO, *REST])


def sent(device: str, bias: list[float]) -> Received:
    state = {"predictor.bias": torch.tensor(bias), "predictor.weight": torch.zeros(len(bias), 2)}
    return Received(device=device, num_examples=1, state=lambda: state)


def test_one_label_leans_as_far_as_anybody_can_and_two_half_as_far() -> None:
    """16 / (16 + 4) = 4 / 5; 9 / (9 + 9 + 12) = 0.3; who sent the median has nothing of its own."""
    found = leaning(BIASES)
    assert found[0].item() == pytest.approx(0.8)
    assert found[1].item() == pytest.approx(0.3)
    assert found[4].item() == 0.0


def test_only_what_is_raised_counts() -> None:
    """The mirror image of one label lowers one class: the most that is raised is 1 of 20."""
    assert leaning(-BIASES)[0].item() == pytest.approx(1 / 20)


def test_huge_biases_do_not_overflow() -> None:
    found = leaning(torch.cat([BIASES, 1e30 * torch.tensor([[1.0, -1.0, 1.0, -1.0, 0.0]])]))
    assert bool(found.isfinite().all())


def test_the_mean_goes_on_from_round_to_round_and_begins_with_the_prior() -> None:
    memory = Memory()
    updates = [sent(name, bias) for name, bias in zip("abcde", BIASES.tolist(), strict=True)]
    first = mean_leaning(updates, memory)
    assert first["a"] == pytest.approx((0.8 + PRIOR) / 2)
    second = mean_leaning(updates[:4], memory)  # the fifth did not answer
    assert second["a"] > first["a"]
    assert "e" not in second
    assert memory.facts["trust.leaning"]["e"] == [0.0, 1]


def test_of_two_devices_nobody_leans() -> None:
    assert mean_leaning([sent("a", ONE), sent("b", TWO)], Memory()) == {}
    assert one_sided({}, 5) == set()


def test_left_out_is_who_leans_far_and_further_than_the_others() -> None:
    edge = CUT * 4 / 5
    assert one_sided({"a": edge + 0.01, "b": 0.3, "c": 0.3}, 5) == {"a"}
    assert one_sided({"a": edge - 0.01, "b": 0.3, "c": 0.3}, 5) == set()
    everybody_has_one_label = {"a": 0.8, "b": 0.78, "c": 0.7}
    assert one_sided(everybody_has_one_label, 5) == set()
    assert one_sided({"a": edge + 0.01, "b": 0.3, "c": 0.3}, 5, cut=1.0) == set()
