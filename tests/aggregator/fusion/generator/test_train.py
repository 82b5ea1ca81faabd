"""Generator training, its losses worked by hand."""

import math

import pytest
import torch
from torch.nn import functional as F

from aggregator.fusion.generator.train import (
    Teachers,
    _teacher_loss,
    diversity_loss,
    label_shares,
    teacher_shares,
    train_generator,
)
from aggregator.fusion.numerics.adam import Adam
from aggregator.recipes.generator import PAPER, REFERENCE, Generation
from core.errors import RoundError
from models.generator import LatentGenerator, build_generator

COUNTS = torch.tensor([[3.0, 0.0, 0.0], [1.0, 4.0, 0.0]])  # two devices, three labels; nobody has the third


def seed(n: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(n)


def predictors(count: int = 4, classes: int = 3, width: int = 2) -> Teachers:
    """Alike, as those of devices that learn the same are."""
    rng = seed(5)
    angles = torch.arange(classes)[:, None] * 2 * math.pi / classes + torch.tensor([0.0, math.pi / 2])
    common = F.pad(3 * angles.cos(), (0, width - 2))  # a direction for each class
    states = [
        {
            "predictor.weight": common + 0.2 * torch.randn(classes, width, generator=rng),
            "predictor.bias": 0.2 * torch.randn(classes, generator=rng),
            "extractor.fc.weight": torch.zeros(1),
        }
        for _ in range(count)
    ]
    return Teachers.stack(states)


def test_all_predictors_answer_in_one_product() -> None:
    teachers, z = predictors(), torch.randn(6, 2, generator=seed(1))
    logits = teachers.logits(z)
    assert logits.shape == (4, 6, 3)
    for k in range(4):
        torch.testing.assert_close(logits[k], F.linear(z, teachers.weight[k], teachers.bias[k]))


def test_the_mean_teacher_gives_the_mean_of_the_logits() -> None:
    teachers, z = predictors(), torch.randn(6, 2, generator=seed(1))
    shares = torch.tensor([0.5, 0.25, 0.25, 0.0])
    expected = torch.einsum("k,kbc->bc", shares, teachers.logits(z))
    torch.testing.assert_close(teachers.mean(shares).logits(z)[0], expected)


def test_predictors_of_two_widths_are_refused() -> None:
    one, two = predictors(1, width=2), predictors(1, width=3)
    states = [{"predictor.weight": t.weight[0], "predictor.bias": t.bias[0]} for t in (one, two)]
    with pytest.raises(RoundError, match="one latent width"):
        Teachers.stack(states)
    with pytest.raises(RoundError, match="no predictors"):
        Teachers.stack([])


def test_labels_are_drawn_as_often_as_the_devices_have_them() -> None:
    assert label_shares(COUNTS, PAPER).tolist() == [0.5, 0.5, 0.0]
    assert label_shares(torch.tensor([[1.0, 3.0]]), PAPER).tolist() == [0.25, 0.75]


def test_in_the_reference_form_every_label_that_someone_has_is_as_likely() -> None:
    assert label_shares(torch.tensor([[1.0, 9.0, 0.0]]), REFERENCE).tolist() == [0.5, 0.5, 0.0]


def test_a_distrusted_device_has_no_say_in_the_labels() -> None:
    assert label_shares(COUNTS, PAPER, torch.tensor([1.0, 0.0])).tolist() == [1.0, 0.0, 0.0]
    with pytest.raises(RoundError, match="nothing to draw from"):
        label_shares(COUNTS, PAPER, torch.zeros(2))


def test_teachers_count_by_their_labels_and_the_shares_of_a_label_sum_to_1() -> None:
    """With 1 added to every count: label 0: 4 and 2; label 1: 1 and 5; label 2: 1 and 1."""
    shares = teacher_shares(COUNTS, REFERENCE)
    expected = [[4 / 6, 1 / 6, 0.5], [2 / 6, 5 / 6, 0.5]]
    torch.testing.assert_close(shares, torch.tensor(expected))
    torch.testing.assert_close(shares.sum(0), torch.ones(3))


def test_trust_multiplies_the_shares_of_teachers() -> None:
    shares = teacher_shares(COUNTS, REFERENCE, torch.tensor([0.5, 1.0]))  # label 0: 2 and 2
    torch.testing.assert_close(shares[:, 0], torch.tensor([0.5, 0.5]))
    assert teacher_shares(COUNTS, REFERENCE, torch.tensor([1.0, 0.0]))[1].tolist() == [0.0, 0.0, 0.0]


def test_the_per_teacher_loss_is_the_weighted_sum_over_teachers() -> None:
    teachers, z, y = predictors(2), torch.randn(5, 2, generator=seed(1)), torch.tensor([0, 1, 2, 0, 1])
    weights = teacher_shares(COUNTS, REFERENCE)
    expected = sum(
        (weights[k, y] * F.cross_entropy(F.linear(z, teachers.weight[k], teachers.bias[k]), y, reduction="none")).mean()
        for k in range(2)
    )
    torch.testing.assert_close(_teacher_loss(teachers, z, y, weights), torch.as_tensor(expected))


def test_the_diversity_loss_by_hand() -> None:
    """Two rows: |n0 - n1|^2 = (1 + 9) / 2 = 5, |z0 - z1| = (2 + 0) / 2 = 1; 2 of the 4 pairs, so exp(-5 / 2)."""
    noise, z = torch.tensor([[0.0, 0.0], [1.0, 3.0]]), torch.tensor([[0.0, 1.0], [2.0, 1.0]])
    assert float(diversity_loss(noise, z)) == pytest.approx(math.exp(-2.5))


def test_a_generator_that_ignores_its_noise_has_the_greatest_diversity_loss() -> None:
    assert float(diversity_loss(torch.rand(4, 3), torch.ones(4, 2))) == 1.0


def fresh(how: Generation) -> tuple[LatentGenerator, Adam]:
    generator = build_generator(3, 2, noise_width=4, hidden=16, noise=how.noise, generator=seed(2))  # type: ignore[arg-type]
    return generator, Adam.fresh(list(generator.parameters()))


@pytest.mark.parametrize("how", [PAPER, REFERENCE], ids=["paper", "reference"])
def test_generated_latents_come_to_mean_their_labels_to_the_teachers(how: Generation) -> None:
    how = Generation(loss=how.loss, noise=how.noise, labels=how.labels, steps=60, lr=0.02, diversity=0.0)
    teachers, (generator, adam) = predictors(), fresh(how)
    counts = torch.ones(4, 3)
    first = train_generator(generator, adam, teachers, counts, how, round_number=1, rng=seed(1))
    last = train_generator(generator, adam, teachers, counts, how, round_number=2, rng=seed(2))
    assert last.teacher_loss < first.teacher_loss / 2
    y = torch.arange(90) % 3
    agreed = teachers.logits(generator.sample(y, generator=seed(3))).mean(0).argmax(1) == y
    assert float(agreed.float().mean()) > 0.9
    assert adam.steps == 120
    assert not generator.training


def test_the_diversity_loss_spreads_the_latents() -> None:
    losses = {}
    for weight in (0.0, 5.0):
        how = Generation(steps=60, lr=0.02, diversity=weight)
        generator, adam = fresh(how)
        train_generator(generator, adam, predictors(), torch.ones(4, 3), how, round_number=1, rng=seed(1))
        with torch.no_grad():
            z, noise = generator(torch.zeros(50, dtype=torch.long), generator=seed(3))
        losses[weight] = float(diversity_loss(noise, z))
    assert losses[5.0] < losses[0.0] / 2


def test_the_same_seed_gives_the_same_generator() -> None:
    states = []
    for _ in range(2):
        generator, adam = fresh(REFERENCE)
        train_generator(generator, adam, predictors(2), COUNTS, REFERENCE, round_number=1, rng=seed(1))
        states.append(generator.state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_a_distrusted_teacher_leaves_no_trace_in_the_generator() -> None:
    """Device 1 of two is distrusted: what it says is all the same."""
    results = []
    for junk in (0.0, 1000.0):
        generator, adam = fresh(PAPER)
        teachers = predictors(2)
        teachers.weight[1] += junk
        trust = torch.tensor([1.0, 0.0])
        train_generator(generator, adam, teachers, COUNTS, PAPER, round_number=1, rng=seed(1), trust=trust)
        results.append(generator.fc2.weight.detach().clone())
    assert torch.equal(results[0], results[1])


def test_labels_that_nobody_has_are_not_drawn() -> None:
    """The third label is nobody's: its column of the first layer gets no gradient, so Adam leaves it alone."""
    generator, adam = fresh(PAPER)
    before = generator.fc1.weight.detach().clone()
    trained = train_generator(generator, adam, predictors(2), COUNTS, PAPER, round_number=1, rng=seed(1))
    moved = (generator.fc1.weight.detach() - before).abs().sum(0)[4:]  # after the four of the noise
    assert moved[2] == 0.0
    assert min(moved[:2]) > 0.0
    assert trained.labels.tolist() == [0.5, 0.5, 0.0]
