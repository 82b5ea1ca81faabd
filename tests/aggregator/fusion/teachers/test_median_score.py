"""FedRAD's median scores, worked by hand."""

from dataclasses import replace

import pytest
import torch

from aggregator.fusion.teachers.combine import median_logits
from aggregator.fusion.teachers.ensemble import Ensemble
from aggregator.fusion.teachers.median_score import count_medians, median_score
from aggregator.fusion.types import Memory, Received, Server, View
from core.errors import RoundError
from models.spec import PrototypeSpec
from quant.precision import FP32
from tests.aggregator.fusion.answers import Says

SPEC = PrototypeSpec("mlp", FP32, (2,), 2)


def view(examples: dict[str, int], ensemble: Ensemble | None) -> View:
    updates = [Received(device=name, num_examples=n, state=dict) for name, n in examples.items()]
    return View(
        spec=SPEC,
        round_number=1,
        previous={},
        updates=updates,
        memory=Memory(),
        options={},
        server=Server(),
        ensemble=ensemble,
    )


def test_each_sample_and_class_credits_one_teacher() -> None:
    """Sample 0: medians 2 of teacher 1 and 4 of teacher 2; sample 1: 5 of teacher 0, 0 of teacher 1."""
    logits = torch.tensor([[[1.0, 0.0], [5.0, -1.0]], [[2.0, 8.0], [4.0, 0.0]], [[9.0, 4.0], [6.0, 3.0]]])
    medians = median_logits(logits)
    assert medians.tolist() == [[2.0, 4.0], [5.0, 0.0]]
    assert count_medians(logits, medians).tolist() == [1, 2, 1]


def test_among_equals_the_first_is_credited_and_only_the_first() -> None:
    logits = torch.zeros(3, 2, 2)
    assert count_medians(logits, median_logits(logits)).tolist() == [4, 0, 0]


def test_a_teacher_without_an_answer_is_not_credited() -> None:
    logits = torch.tensor([[[float("nan")]], [[1.0]], [[2.0]]])
    assert count_medians(logits, median_logits(logits)).tolist() == [0, 1, 0]


def test_weights_are_scores_times_examples() -> None:
    """Of three teachers, b has three quarters of the medians and c one quarter."""
    teachers = [
        Says("a", [[0.0, 0.0], [0.0, 0.0]]),
        Says("b", [[1.0, 1.0], [1.0, 2.0]]),
        Says("c", [[2.0, 2.0], [2.0, 1.0]]),
    ]
    ensemble = Ensemble(teachers, torch.arange(2.0)[:, None])
    assert ensemble.scores().tolist() == [0.0, 0.75, 0.25]
    assert list(median_score(view({"a": 10, "b": 4, "c": 8}, ensemble))) == [0.0, 3.0, 2.0]
    assert list(median_score(view({"c": 8}, ensemble))) == [2.0], "another prototype's devices share the medians"


def test_a_power_of_two_squares_the_scores() -> None:
    teachers = [
        Says("a", [[0.0, 0.0], [0.0, 0.0]]),
        Says("b", [[1.0, 1.0], [1.0, 2.0]]),
        Says("c", [[2.0, 2.0], [2.0, 1.0]]),
    ]
    ensemble = Ensemble(teachers, torch.arange(2.0)[:, None])
    squared = replace(view({"a": 16, "b": 16, "c": 16}, ensemble), options={"score_power": 2.0})
    assert list(median_score(squared)) == [0.0, 9.0, 1.0]
    unscored = replace(squared, options={"score_power": 0.0})
    assert list(median_score(unscored)) == [16.0, 16.0, 16.0]


def test_a_prototype_that_is_never_the_median_is_weighed_by_examples() -> None:
    teachers = [Says("a", [[0.0]]), Says("b", [[1.0]]), Says("c", [[2.0]])]
    ensemble = Ensemble(teachers, torch.zeros(1, 1))
    assert list(median_score(view({"a": 10, "c": 5}, ensemble))) == [10.0, 5.0]


def test_the_score_of_a_late_model_is_not_that_of_the_device() -> None:
    teachers = [Says("a", [[2.0]]), Says("b", [[1.0]]), Says("a", [[0.0]]), Says("b", [[9.0]])]
    ensemble = Ensemble(teachers, torch.zeros(1, 1))
    assert list(median_score(view({"a": 1, "b": 7}, ensemble))) == [0.0, 7.0]


def test_scores_need_samples() -> None:
    with pytest.raises(RoundError, match="give the fusion a source"):
        median_score(view({"a": 1}, None))
