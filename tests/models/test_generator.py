"""The latent generator of FedGen."""

import pytest
import torch

from core.errors import ConfigError
from models.generator import LatentGenerator, Noise, build_generator

LABELS = torch.tensor([0, 1, 1, 2])


def seed(n: int) -> torch.Generator:
    return torch.Generator().manual_seed(n)


def parameters(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def test_the_parameter_counts_of_the_papers_hold() -> None:
    assert parameters(LatentGenerator(10, 32)) == 19_744  # MNIST
    assert parameters(LatentGenerator(26, 32)) == 23_840  # EMNIST letters


def test_forward_is_the_equation() -> None:
    g = build_generator(3, 2, noise_width=2, hidden=4, generator=seed(0)).eval()
    noise = torch.tensor([[0.5, -1.0]])
    with torch.no_grad():
        x = torch.tensor([[0.5, -1.0, 0.0, 0.0, 1.0]])  # noise, then the one-hot of label 2
        hidden = (x @ g.fc1.weight.T + g.fc1.bias) / (1.0 + 1e-5) ** 0.5  # fresh statistics: mean 0, variance 1
        expected = hidden.clamp(min=0.0) @ g.fc2.weight.T + g.fc2.bias
        torch.testing.assert_close(g.decode(noise, torch.tensor([2])), expected)


def test_forward_returns_the_noise_it_used() -> None:
    g = build_generator(3, 5, generator=seed(0)).eval()
    z, noise = g(LABELS, generator=seed(1))
    assert z.shape == (4, 5)
    assert noise.shape == (4, 32)
    assert torch.equal(z, g.decode(noise, LABELS))


def test_paper_noise_is_standard_normal() -> None:
    noise = LatentGenerator(3, 5, noise="paper").draw(1000, generator=seed(0))
    assert abs(float(noise.mean())) < 0.03  # standard error 0.0056
    assert abs(float(noise.var()) - 1.0) < 0.05
    assert float(noise.min()) < -3.0


def test_reference_noise_is_uniform_on_the_unit_interval() -> None:
    noise = LatentGenerator(3, 5, noise="reference").draw(1000, generator=seed(0))
    assert 0.0 <= float(noise.min()) < 0.001
    assert 0.999 < float(noise.max()) < 1.0
    assert abs(float(noise.mean()) - 0.5) < 0.01


@pytest.mark.parametrize("noise", ["paper", "reference"])
def test_a_sample_depends_on_the_seed_only(noise: Noise) -> None:
    g = build_generator(3, 5, noise=noise, generator=seed(0))
    first = g.sample(LABELS, generator=seed(1))
    assert torch.equal(first, g.sample(LABELS, generator=seed(1)))
    assert not torch.equal(first, g.sample(LABELS, generator=seed(2)))


def test_a_row_of_a_sample_does_not_depend_on_the_other_labels() -> None:
    g = build_generator(3, 5, generator=seed(0)).train()
    first = g.sample(torch.tensor([0, 1, 2]), generator=seed(1))
    second = g.sample(torch.tensor([0, 2, 2]), generator=seed(1))
    assert torch.equal(first[[0, 2]], second[[0, 2]])
    assert not torch.equal(first[1], second[1])


@pytest.mark.parametrize("training", [True, False])
def test_sampling_changes_nothing(training: bool) -> None:
    g = build_generator(3, 5, generator=seed(0)).train(training)
    before = {name: value.clone() for name, value in g.state_dict().items()}
    z = g.sample(LABELS, generator=seed(1))
    assert not z.requires_grad
    assert g.training is training
    assert all(torch.equal(value, before[name]) for name, value in g.state_dict().items())


def test_training_moves_the_running_statistics_and_gives_gradients() -> None:
    g = build_generator(3, 5, generator=seed(0)).train()
    g(LABELS, generator=seed(1))[0].square().sum().backward()
    assert int(g.norm.num_batches_tracked) == 1
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in g.parameters())
    assert float(g.fc1.weight.grad.abs().sum()) > 0.0


def test_building_is_seeded_and_leaves_the_global_state_alone() -> None:
    before = torch.get_rng_state()
    a, b, c = (build_generator(3, 5, generator=seed(n)) for n in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(a.fc1.weight, b.fc1.weight)
    assert not torch.equal(a.fc1.weight, c.fc1.weight)


def test_an_unknown_noise_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown generator noise 'gauss'; known: paper reference"):
        LatentGenerator(3, 5, noise="gauss")
