"""What teachers say together, worked by hand."""

import math

import pytest
import torch

from aggregator.fusion.teachers.combine import (
    STREAMS,
    TEACH,
    Running,
    mean_logits,
    mean_probabilities,
    median_logits,
    without_broken_rows,
)

#: 4 teachers, 1 sample, 2 classes.
LOGITS = torch.tensor([[[1.0, 0.0]], [[2.0, 8.0]], [[9.0, 4.0]], [[4.0, 2.0]]])
NAN = math.nan


def test_mean_logits_is_the_mean_of_every_class() -> None:
    assert mean_logits(LOGITS).tolist() == [[4.0, 3.5]]


def test_the_median_of_an_even_number_is_the_lower_middle() -> None:
    assert median_logits(LOGITS).tolist() == [[2.0, 2.0]]  # 1 2 4 9 and 0 2 4 8
    assert torch.equal(median_logits(LOGITS), LOGITS.median(0).values)


def test_the_median_of_an_odd_number_is_the_middle() -> None:
    assert median_logits(LOGITS[:3]).tolist() == [[2.0, 4.0]]


def test_mean_probabilities_is_the_log_of_the_mean_softmax() -> None:
    """Teachers say 3/4 and 1/4, then 1/4 and 3/4 three times: (3/4 + 3/4) / 4 = 3/8."""
    three = math.log(3.0)
    logits = torch.tensor([[[three, 0.0]], [[0.0, three]], [[5.0, 5.0 + three]], [[0.0, three]]])
    assert mean_probabilities(logits).exp()[0].tolist() == pytest.approx([3 / 8, 5 / 8])


def test_a_probability_of_zero_has_a_finite_logit() -> None:
    logits = torch.tensor([[[1e30, -1e30]]])
    assert mean_probabilities(logits).isfinite().all()


@pytest.mark.parametrize("name", TEACH)
def test_a_teacher_without_an_answer_is_left_out_for_that_sample_alone(name: str) -> None:
    logits = torch.randn(5, 2, 3, generator=torch.Generator().manual_seed(0))
    broken = logits.clone()
    broken[3, 1] = NAN
    taught = TEACH[name](broken)
    assert torch.equal(taught[0], TEACH[name](logits)[0])
    assert torch.equal(taught[1], TEACH[name](logits[[0, 1, 2, 4]])[1])


@pytest.mark.parametrize("part", STREAMS)
def test_a_stream_gives_the_bits_of_the_part(part: object) -> None:
    logits = torch.randn(7, 5, 3, generator=torch.Generator().manual_seed(1))
    running = Running(STREAMS[part])  # type: ignore[index]
    for answer in logits:
        running.add(answer)
    assert torch.equal(running.result(), part(logits))  # type: ignore[operator]
    assert running.result().dtype == torch.float32


def test_a_sum_beyond_float32_is_still_a_mean() -> None:
    assert mean_logits(torch.full((4, 1, 1), 3e38)).item() == pytest.approx(3e38)


def test_rows_that_are_not_finite_are_broken_and_others_untouched() -> None:
    rows = torch.tensor([[1.0, 2.0], [math.inf, 0.0], [NAN, 1.0]])
    mended = without_broken_rows(rows)
    assert mended[0].tolist() == [1.0, 2.0]
    assert mended[1:].isnan().all()
    whole = torch.ones(2, 2)
    assert without_broken_rows(whole) is whole
