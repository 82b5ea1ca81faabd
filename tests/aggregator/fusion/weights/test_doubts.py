"""What speaks against a device, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from aggregator.fusion.types import Memory, Received
from aggregator.fusion.weights.doubts import (
    Doubts,
    alone_by_counts,
    always_the_same,
    answers_of,
    mean_sense,
    rank_correlation,
)

#: Three classes, six samples, two of each class. Three devices know them; one says 0 to all, with a confidence that has
#: nothing to do with the sample; one has zeros alone and says 0 to all too, but most to a zero.
KNOWS = torch.eye(3).repeat_interleave(2, 0) * torch.tensor([[4.0], [5.0], [3.0], [3.5], [2.0], [2.5]])
ZERO = torch.tensor([[1.0, 0.0, 0.0]])
BLIND = ZERO * torch.tensor([[5.0], [8.0], [6.0], [7.0], [9.0], [10.0]])
ZEROS = ZERO * torch.tensor([[8.0], [9.0], [5.0], [4.5], [6.0], [5.5]])
LOGITS = torch.stack([KNOWS, KNOWS, KNOWS, BLIND, ZEROS])


def sent(device: str, counts: tuple[int, ...]) -> Received:
    return Received(device=device, num_examples=sum(counts), state=dict, label_counts=counts)


def test_two_doubts_exclude_and_one_does_not() -> None:
    doubts = Doubts.of([sent("a", ()), sent("b", ()), sent("c", ())])
    doubts.add("b", "is far")
    doubts.add("c", "is far")
    doubts.add("c", "is senseless")
    doubts.add("nobody", "is not here")
    assert doubts.excluded == {"c": "is far; is senseless"}
    assert [doubts.share(device, 0.4) for device in "abc"] == [1.0, 0.4, 0.0]
    assert doubts.share("b", 3.0) == 1.0  # a doubt never gives more than a fair share


def test_who_answers_blindly_makes_no_sense_and_who_has_one_label_does() -> None:
    found = answers_of(LOGITS)
    assert found.most.tolist() == pytest.approx([1 / 3] * 3 + [1.0, 1.0])
    assert found.sense[:3].tolist() == pytest.approx([1.0] * 3)
    assert abs(found.sense[3].item()) < 0.1
    assert found.sense[4].item() > 0.8
    assert found.only([4]).sense.tolist() == found.sense[4:].tolist()


def test_answers_that_are_not_finite_are_answers() -> None:
    broken = torch.full_like(KNOWS, math.nan)
    huge = KNOWS * 1e30
    found = answers_of(torch.stack([KNOWS, KNOWS, KNOWS, broken, huge]))
    assert bool(found.most.isfinite().all())
    assert math.isnan(found.sense[3].item())  # it says the same to everything: there is no order to compare
    assert found.sense[4].item() > 0.8


def test_rank_correlation_goes_by_ranks_and_equal_values_share_theirs() -> None:
    a = torch.tensor([[1.0, 2.0, 300.0], [3.0, 2.0, 1.0], [1.0, 1.0, 2.0]])
    b = torch.tensor([[5.0, 6.0, 7.0], [5.0, 6.0, 7.0], [1.0, 2.0, 2.0]])
    assert rank_correlation(a, b).tolist() == pytest.approx([1.0, -1.0, 0.5])
    assert math.isnan(rank_correlation(torch.ones(1, 3), b[:1]).item())


def test_sense_is_the_mean_over_the_rounds_of_a_device() -> None:
    memory = Memory()
    first = mean_sense(answers_of(LOGITS), list("abcde"), memory)
    assert first["d"] < 0.1 < first["e"]
    second = mean_sense(answers_of(torch.stack([KNOWS, KNOWS, KNOWS])), list("abd"), memory)
    assert second["d"] == pytest.approx((first["d"] + 1) / 2)
    assert "e" not in second
    unknown = torch.ones_like(KNOWS)
    assert mean_sense(answers_of(torch.stack([unknown] * 3)), list("xyz"), memory) == {}


def test_one_answer_to_everything_is_special_only_where_others_have_several() -> None:
    assert always_the_same({"a": 0.3, "b": 0.4, "c": 1.0}) == {"c"}
    assert always_the_same({"a": 0.3, "b": 0.4, "c": 0.9}) == set()
    assert always_the_same({"a": 0.9, "b": 0.8, "c": 1.0}) == set()
    assert always_the_same({"a": 0.3, "c": 1.0}) == set()  # of two, whose is special?


def test_one_label_by_its_own_counts() -> None:
    many = [sent("a", (3, 3, 3)), sent("b", (4, 4, 2))]
    assert alone_by_counts([*many, sent("c", (0, 20, 0))]) == {"c"}
    assert alone_by_counts([*many, sent("c", (3, 17, 0))]) == set()  # 85 % of one label is nothing to hold against it
    few = [sent("a", (9, 1, 0)), sent("b", (0, 8, 1))]
    assert alone_by_counts([*few, sent("c", (0, 20, 0))]) == set()
    assert alone_by_counts([*many, sent("c", ())]) == set()  # it tells none
