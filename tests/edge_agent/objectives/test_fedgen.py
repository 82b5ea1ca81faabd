"""The guided loss against its three terms, written out."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from edge_agent.objectives.fedgen import GeneratedObjective
from edge_agent.objectives.fedgen_weights import PAPER, REFERENCE, Guidance
from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import train_local
from models.build import build
from models.latents import Drawer
from models.spec import PrototypeSpec, parse_prototype
from models.split import Prototype
from tests.edge_agent.generators import small_latents

CLASSES, LATENT = 3, 4
LATENTS = small_latents(CLASSES, LATENT)
X = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
Y = torch.tensor([0, 1, 2, 0, 1, 2])


def model(prototype: str = "mlp:fp32") -> Prototype:
    spec = PrototypeSpec(*parse_prototype(prototype), (5,), CLASSES, LATENT)
    return build(spec, generator=torch.Generator().manual_seed(0))


def by_hand(net: Prototype, how: Guidance, number: int) -> torch.Tensor:
    """CE(real) + s a CE(drawn) + b KL(generated || real), term by term, with the draws of the objective."""
    a, b = how.weights(number)
    at, draws = Drawer(LATENTS, how.batch, mirrors=b > 0, rng=np.random.default_rng(3)).step(len(Y))
    drawn = draws.labels[at]
    z = torch.from_numpy(LATENTS.decode(draws.noise[at], drawn))
    logits = net(X)
    scale = how.batch / len(Y) if how.by_size else 1.0
    loss = F.cross_entropy(logits, Y)
    loss = loss + scale * a * F.cross_entropy(net.predictor(z), torch.from_numpy(drawn))
    if b:
        mirrored = torch.from_numpy(LATENTS.decode(draws.mirrored[at], Y.numpy()))
        target = net.predictor(mirrored).softmax(1).detach()
        loss = loss + b * F.kl_div(logits.log_softmax(1), target, reduction="batchmean")
    return loss


@pytest.mark.parametrize("prototype", ["mlp:fp32", "mlp:w1", "mlp:w1a1", "mlp:w8a8", "mlp:w2a2"])
@pytest.mark.parametrize(
    "how", [PAPER, REFERENCE, Guidance(batch=5, kl=0.5, by_size=True)], ids=["paper", "ref", "own"]
)
def test_loss_and_gradients_are_those_of_the_terms(prototype: str, how: Guidance) -> None:
    net = model(prototype)
    params = list(net.parameters())
    ours = GeneratedObjective(LATENTS, how, 2, rng=np.random.default_rng(3))(net, X, Y)
    theirs = by_hand(net, how, 2)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    for a, b in zip(torch.autograd.grad(ours, params), torch.autograd.grad(theirs, params), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_the_drawn_term_moves_the_predictor_alone() -> None:
    net = model()
    plain = torch.autograd.grad(F.cross_entropy(net(X), Y), list(net.parameters()))
    guided = torch.autograd.grad(
        GeneratedObjective(LATENTS, PAPER, 1, rng=np.random.default_rng(0))(net, X, Y), list(net.parameters())
    )
    for (name, _), a, b in zip(net.named_parameters(), plain, guided, strict=True):
        same = bool(torch.allclose(a, b, atol=1e-6))
        assert same == name.startswith("extractor."), name


def test_guidance_ends_after_its_steps() -> None:
    net, objective = model(), GeneratedObjective(LATENTS, Guidance(steps=1), 1, rng=np.random.default_rng(0))
    plain = F.cross_entropy(net(X), Y)
    assert objective(net, X, Y).item() > plain.item()
    assert torch.equal(objective(net, X, Y), plain)


@pytest.mark.parametrize("prototype", ["mlp:fp32", "mlp:w1"])
def test_a_device_learns_a_label_from_generated_latents_alone(prototype: str) -> None:
    """The device has labels 0 and 1 only; after guided training its predictor knows latents of label 2 too."""
    x, y = X[Y < 2].repeat(5, 1), Y[Y < 2].repeat(5)
    how = LocalTraining(lr=0.1, batch_size=10, steps=60)
    z = torch.from_numpy(LATENTS.decode(LATENTS.draw_noise(50, np.random.default_rng(9)), np.full(50, 2)))
    shares = {}
    for name, objective in (
        ("plain", None),
        ("guided", GeneratedObjective(LATENTS, PAPER, 1, rng=np.random.default_rng(1))),
    ):
        net = model(prototype)
        train_local(net, x, y, how, generator=torch.Generator().manual_seed(0), objective=objective)
        shares[name] = float((net.predictor(z).argmax(1) == 2).float().mean())
    assert shares["guided"] > 0.7 > shares["plain"]
