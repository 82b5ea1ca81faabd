"""Training in NumPy against training in torch, step by step."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from core.errors import ConfigError, DivergedError
from edge_agent.light.predictor import LightPredictor
from edge_agent.light.train import GeneratedTerm, light_batches, train_predictor
from edge_agent.objectives.fedgen import GeneratedObjective
from edge_agent.objectives.fedgen_weights import PAPER, REFERENCE, Guidance
from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import batches, train_local
from quant.layers import layers_for
from quant.precision import parse_precision
from tests.edge_agent.generators import small_latents

N, CLASSES, LATENT, STEPS = 50, 4, 6, 20
Z = torch.randn(N, LATENT, generator=torch.Generator().manual_seed(1))
Y = torch.arange(N) % CLASSES


class Frozen(torch.nn.Module):
    """A predictor under an extractor that has nothing to learn."""

    def __init__(self, precision: str) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.extractor = torch.nn.Identity()
        self.predictor = layers_for(parse_precision(precision)).linear(LATENT, CLASSES)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.predictor(self.extractor(z))
        return logits


def torch_epochs(how: LocalTraining) -> Iterator[np.ndarray]:
    generator = torch.Generator().manual_seed(5)

    def epoch() -> Iterator[np.ndarray]:
        return (chosen.numpy() for chosen in batches(N, how.batch_size, generator))

    return epoch  # type: ignore[return-value]


@pytest.mark.parametrize("precision", ["fp32", "w1"])
@pytest.mark.parametrize("guidance", [None, PAPER, REFERENCE], ids=["plain", "paper", "reference"])
@pytest.mark.parametrize(
    "more",
    [{}, {"momentum": 0.9}, {"prox": 0.5, "weight_decay": 0.01}, {"momentum": 0.9, "clip": 0.2}],
    ids=["sgd", "momentum", "prox", "clip"],
)
def test_twenty_steps_agree_with_torch(precision: str, guidance: Guidance | None, more: dict[str, float]) -> None:
    how = LocalTraining(lr=0.01, batch_size=16, steps=STEPS, **more)  # type: ignore[arg-type]
    latents = small_latents(CLASSES, LATENT)
    net = Frozen(precision)
    tensors = {name: value.detach().numpy().copy() for name, value in net.state_dict().items()}
    light = LightPredictor.from_tensors(tensors, parse_precision(precision))
    objective = guidance and GeneratedObjective(latents, guidance, 3, rng=np.random.default_rng(7))
    theirs = train_local(net, Z, Y, how, generator=torch.Generator().manual_seed(5), objective=objective)
    generated = guidance and GeneratedTerm(latents, guidance, 3, rng=np.random.default_rng(7))
    ours = train_predictor(light, Z.numpy(), Y.numpy(), how, epoch=torch_epochs(how), generated=generated)  # type: ignore[arg-type]
    assert ours.steps == theirs.steps == STEPS
    assert ours.loss == pytest.approx(theirs.loss, abs=1e-5)
    np.testing.assert_allclose(light.weight, net.predictor.weight.detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(light.bias, net.predictor.bias.detach().numpy(), atol=1e-5)
    assert np.abs(light.weight - tensors["predictor.weight"]).max() > 1e-3  # it has moved


def test_a_gradient_that_is_not_finite_ends_the_training() -> None:
    light, rng = LightPredictor(np.zeros((2, LATENT), np.float32), np.zeros(2, np.float32)), np.random.default_rng(0)
    how = LocalTraining(lr=0.5, batch_size=10, epochs=2, clip=1.0)
    z = np.full((20, LATENT), np.inf, np.float32)
    with pytest.raises(DivergedError, match="training diverged"), np.errstate(invalid="ignore"):
        train_predictor(light, z, np.zeros(20, np.int64), how, epoch=lambda: light_batches(20, 10, rng))


def test_a_predictor_learns_in_epochs() -> None:
    y = (Z[:, 0] > 0).long().numpy()
    light = LightPredictor(np.zeros((2, LATENT), np.float32), np.zeros(2, np.float32))
    how, rng = LocalTraining(lr=0.5, batch_size=10, epochs=20), np.random.default_rng(0)
    done = train_predictor(light, Z.numpy(), y, how, epoch=lambda: light_batches(N, 10, rng))
    assert done.steps == 100
    assert float((light.logits(Z.numpy()).argmax(1) == y).mean()) > 0.95
    assert done.loss < 0.3 < np.log(2)


def test_an_epoch_visits_every_sample_once_but_a_lonely_last_one() -> None:
    rng = np.random.default_rng(0)
    assert sorted(np.concatenate(list(light_batches(10, 4, rng)))) == list(range(10))
    assert sum(len(b) for b in light_batches(9, 4, rng)) == 8
    assert [len(b) for b in light_batches(1, 4, rng)] == [1]


def test_a_deadline_keeps_what_was_learned_so_far() -> None:
    light, asked = (
        LightPredictor(np.zeros((CLASSES, LATENT), np.float32), np.zeros(CLASSES, np.float32)),
        itertools.count(),
    )
    how, rng = LocalTraining(lr=0.5, batch_size=10, epochs=20), np.random.default_rng(0)
    done = train_predictor(
        light,
        Z.numpy(),
        Y.numpy(),
        how,
        epoch=lambda: light_batches(N, 10, rng),
        should_stop=lambda: next(asked) >= 3,
    )
    assert (done.steps, done.stopped_early) == (3, True)
    assert np.abs(light.weight).max() > 0


def test_a_device_without_samples_is_told_so() -> None:
    light = LightPredictor(np.zeros((2, 3), np.float32), np.zeros(2, np.float32))
    how = LocalTraining(lr=0.1, batch_size=8, epochs=1)
    with pytest.raises(ConfigError, match="no samples"):
        train_predictor(light, np.zeros((0, 3), np.float32), np.zeros(0, np.int64), how, epoch=lambda: iter(()))
