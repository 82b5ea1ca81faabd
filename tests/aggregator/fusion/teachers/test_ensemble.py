"""One pass over all teachers: every sample once, the same bits in blocks and in parallel."""

import math

import pytest
import torch

from aggregator.fusion.teachers.combine import TEACH, mean_logits, median_logits
from aggregator.fusion.teachers.ensemble import Ensemble
from core.errors import ModelError, RoundError
from tests.aggregator.fusion.answers import Says


def numbered(n: int) -> torch.Tensor:
    return torch.arange(float(n))[:, None]


def random_teachers(count: int, n: int, classes: int = 3) -> list[Says]:
    seed = torch.Generator().manual_seed(0)
    return [Says(f"d{k}", torch.randn(n, classes, generator=seed), classes=classes) for k in range(count)]


def stacked(teachers: list[Says]) -> torch.Tensor:
    return torch.stack([torch.as_tensor(t.rows) for t in teachers])


@pytest.mark.parametrize("name", TEACH)
def test_targets_are_what_the_part_makes_of_all_answers(name: str) -> None:
    teachers = random_teachers(5, 20)
    ensemble = Ensemble(teachers, numbered(20), teach=name)
    assert ensemble.devices == ["d0", "d1", "d2", "d3", "d4"]
    assert torch.equal(ensemble.taught(), TEACH[name](stacked(teachers)))


@pytest.mark.parametrize("name", TEACH)
@pytest.mark.parametrize("scored", [False, True])
def test_each_teacher_sees_each_sample_once_whatever_is_asked_and_how_often(name: str, scored: bool) -> None:
    teachers = random_teachers(4, 300)
    ensemble = Ensemble(teachers, numbered(300), teach=name, scored=scored)
    for _ in range(2):
        ensemble.taught()
        if scored:
            ensemble.scores()
    assert all(sorted(teacher.asked) == list(range(300)) for teacher in teachers)


def test_scores_first_and_targets_afterwards_are_one_pass_too() -> None:
    teachers = random_teachers(3, 10)
    ensemble = Ensemble(teachers, numbered(10), teach="median-logits", scored=True)
    assert ensemble.scores().sum().item() == pytest.approx(1.0)
    ensemble.taught()
    assert all(len(teacher.asked) == 10 for teacher in teachers)


def test_blocks_give_the_bits_of_one_block() -> None:
    teachers = random_teachers(5, 23)
    whole = Ensemble(teachers, numbered(23), teach="median-logits", scored=True)
    blocks = Ensemble(teachers, numbered(23), teach="median-logits", scored=True, budget=4 * 5 * 3 * 4)  # 4 samples
    assert torch.equal(whole.taught(), blocks.taught())
    assert torch.equal(whole.scores(), blocks.scores())
    assert [t.opened for t in teachers] == [1 + 6] * 5


@pytest.mark.parametrize("name", TEACH)
def test_who_is_left_out_after_scoring_costs_no_second_pass(name: str) -> None:
    teachers = random_teachers(5, 30)
    whole = Ensemble(teachers, numbered(30), teach=name, scored=True, keep=True)
    whole.scores()
    others = whole.without({"d1", "d4", "nobody"})
    assert others.devices == ["d0", "d2", "d3"]
    assert torch.equal(others.taught(), TEACH[name](stacked([teachers[k] for k in (0, 2, 3)])))
    assert all(len(teacher.asked) == 30 for teacher in teachers)


def test_answers_beyond_the_budget_are_asked_for_again() -> None:
    teachers = random_teachers(5, 30)
    whole = Ensemble(teachers, numbered(30), teach="median-logits", scored=True, keep=True, budget=4 * 5 * 3 * 29)
    whole.scores()
    others = whole.without({"d0"})
    assert torch.equal(others.taught(), median_logits(stacked(teachers[1:])))
    assert [len(teacher.asked) for teacher in teachers] == [30, 60, 60, 60, 60]


def test_an_ensemble_without_nobody_or_everybody_is_the_same() -> None:
    whole = Ensemble(random_teachers(2, 3), numbered(3), teach="mean-logits")
    assert whole.without(set()) is whole.without({"d0", "d1"}) is whole


def test_workers_do_not_change_a_bit() -> None:
    teachers = random_teachers(9, 50)
    one = Ensemble(teachers, numbered(50), teach="mean-probabilities", workers=1).taught()
    assert torch.equal(one, Ensemble(teachers, numbered(50), teach="mean-probabilities", workers=4).taught())


def test_a_temperature_softens_every_teacher_and_not_only_the_mean() -> None:
    """sigma(target / T) is the mean of the teachers' softmax at T."""
    teachers = random_teachers(3, 4)
    targets = Ensemble(teachers, numbered(4), teach="mean-probabilities", temperature=4.0).taught()
    expected = (stacked(teachers) / 4).softmax(2).mean(0)
    assert torch.allclose((targets / 4).softmax(1), expected)


@pytest.mark.parametrize("name", ["mean-logits", "median-logits"])
def test_means_and_medians_of_logits_know_no_temperature(name: str) -> None:
    teachers = random_teachers(3, 4)
    ensemble = Ensemble(teachers, numbered(4), teach=name, temperature=3.0)
    assert torch.equal(ensemble.taught(), ensemble.taught(name, 1.0))
    assert all(len(teacher.asked) == 4 for teacher in teachers)


def test_a_part_of_a_user_sees_blocks() -> None:
    teachers = random_teachers(3, 10)

    def loudest(logits: torch.Tensor) -> torch.Tensor:
        return logits.amax(0)

    assert torch.equal(Ensemble(teachers, numbered(10)).taught(loudest), stacked(teachers).amax(0))


def test_a_teacher_whose_answer_is_not_finite_is_left_out_of_that_sample() -> None:
    teachers = [Says("a", [[1.0, 2.0], [1.0, 2.0]]), Says("b", [[3.0, 6.0], [math.inf, 0.0]])]
    assert Ensemble(teachers, numbered(2)).taught(mean_logits).tolist() == [[2.0, 4.0], [1.0, 2.0]]
    assert Ensemble(teachers, numbered(2)).taught(median_logits).tolist() == [[1.0, 2.0], [1.0, 2.0]]


def test_a_sample_that_nobody_answers_is_an_error() -> None:
    with pytest.raises(RoundError, match="no teacher has finite logits for 1 of 2 samples"):
        Ensemble([Says("a", [[1.0], [math.nan]])], numbered(2)).taught("mean-logits")


def test_accuracy_is_that_of_the_teachers_together() -> None:
    teachers = [Says("a", [[1.0, 0.0], [0.0, 1.0]]), Says("b", [[0.0, 3.0], [0.0, 1.0]])]
    ensemble = Ensemble(teachers, numbered(2))
    assert ensemble.accuracy(numbered(2), torch.tensor([0, 1])) == 0.5
    assert ensemble.accuracy(numbered(2), torch.tensor([0, 1]), "median-logits") == 1.0  # lower middle: a tie, class 0


def test_teachers_must_agree_on_the_classes() -> None:
    teachers = [Says("a", [[1.0, 0.0]]), Says("b", [[0.0]])]
    with pytest.raises(ModelError, match=r"teacher 'b' answers \(1, 1\), expected \(1, 2\)"):
        Ensemble(teachers, numbered(1)).taught("mean-logits")


def test_an_ensemble_needs_teachers_and_samples() -> None:
    with pytest.raises(RoundError, match="0 teachers on 1 samples"):
        Ensemble([], numbered(1))
    with pytest.raises(RoundError, match="1 teachers on 0 samples"):
        Ensemble([Says("a", [[1.0]])], numbered(0))
