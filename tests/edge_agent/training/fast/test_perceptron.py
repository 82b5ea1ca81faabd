"""Backpropagation by hand gives what autograd gives, and is taken only where it does."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from edge_agent.training.fast.perceptron import chain_of, draw_mask_
from edge_agent.training.local_round import repeatable
from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import train_local
from models.build import build
from models.seeding import followed, seeded
from models.spec import PrototypeSpec, parse_prototype
from models.split import Prototype
from tests.edge_agent.sgd_terms import every_sgd_term


def prototype(name: str = "mlp:fp32", latent: int = 6) -> Prototype:
    arch, precision = parse_prototype(name)
    spec = PrototypeSpec(arch, precision, (1, 4, 4), 3, latent)
    return build(spec, generator=torch.Generator().manual_seed(1))


def samples() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(21, 1, 4, 4, generator=torch.Generator().manual_seed(2))
    return x, (x.flatten(1)[:, :3]).argmax(1)


def trained(model: nn.Module, how: LocalTraining, *, by_autograd: bool) -> tuple[list[torch.Tensor], float]:
    """Its weights and its loss."""
    how, rng = replace(how, fast="off" if by_autograd else "auto"), torch.Generator().manual_seed(3)
    with repeatable(model, rng):
        done = train_local(model, *samples(), how, generator=rng)
    return [p.detach() for p in model.parameters()], done.loss


@pytest.mark.parametrize("name", ["mlp:fp32", "mlp:w1", "fedrad_mlp:fp32"])
@every_sgd_term
def test_the_weights_are_those_of_autograd(name: str, extra: dict[str, float]) -> None:
    how = LocalTraining(lr=0.1, batch_size=8, epochs=4, **extra)  # batches of 8, 8 and 5
    ours, our_loss = trained(prototype(name), how, by_autograd=False)
    theirs, their_loss = trained(prototype(name), how, by_autograd=True)
    start = [p.detach() for p in prototype(name).parameters()]
    for a, b, before in zip(ours, theirs, start, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
        assert (a - before).abs().max() > 1e-3  # all of them have moved
    assert our_loss == pytest.approx(their_loss, rel=1e-6)


def test_one_step_worked_by_hand() -> None:
    """x = (1, 2), W = 0, b = 0: p = (1/2, 1/2), label 0, so dz = (-1/2, 1/2), dW = dz x^T and the loss is ln 2."""
    model = nn.Sequential(nn.Linear(2, 2))
    nn.init.zeros_(model[0].weight)
    nn.init.zeros_(model[0].bias)
    x, y = torch.tensor([[1.0, 2.0]]), torch.tensor([0])
    done = train_local(model, x, y, LocalTraining(lr=0.1, batch_size=1, steps=1), generator=torch.Generator())
    torch.testing.assert_close(model[0].weight.detach(), torch.tensor([[0.05, 0.1], [-0.05, -0.1]]))
    torch.testing.assert_close(model[0].bias.detach(), torch.tensor([0.05, -0.05]))
    assert done.loss == pytest.approx(0.693147, rel=1e-5)


class Doubled(nn.Sequential):
    """A subclass whose forward is another."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].register_forward_hook(lambda *_: None)
    return model


def frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].bias.requires_grad_(False)
    return model


def test_perceptrons_of_the_zoo_and_plain_sequences_are_chains() -> None:
    slopes = [layer.slope for layer in chain_of(prototype()) or ()]
    assert slopes == [0, 0, None, None]  # the third is the adapter, the last the predictor
    sequence = nn.Sequential(nn.Flatten(), nn.Linear(4, 3, bias=False), nn.ReLU(), nn.Dropout(0.0), nn.Linear(3, 2))
    assert [(layer.slope, layer.dropout) for layer in chain_of(sequence) or ()] == [(0, 0), (None, 0)]


def test_dropout_and_leaky_relus_belong_to_a_chain() -> None:
    found = [(layer.slope, layer.dropout) for layer in chain_of(prototype("fedrad_mlp:fp32")) or ()]
    assert found == [(0.1, 0.5), (0.1, 0.5), (None, 0), (None, 0)]
    sequence = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.2), nn.Linear(2, 2))
    assert [(layer.slope, layer.dropout) for layer in chain_of(sequence) or ()] == [(None, 0.2), (None, 0)]


@pytest.mark.parametrize("p", [0.2, 0.5])
def test_a_mask_is_the_one_that_dropout_draws(p: float) -> None:
    with seeded(torch.Generator().manual_seed(5)):
        wanted = F.dropout(torch.ones(7, 33), p)
    rng = followed(torch.Generator().manual_seed(5))
    assert torch.equal(draw_mask_(torch.empty(7, 33), p, rng), wanted)


def softmax_first(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(output.softmax(1), y)


@pytest.mark.parametrize("name", ["mlp:fp32", "fedrad_mlp:fp32"])
def test_another_loss_of_the_logits_takes_the_steps_of_autograd(name: str) -> None:
    how = LocalTraining(lr=0.5, batch_size=8, epochs=3, momentum=0.5)
    made = []
    for fast in ("auto", "off"):
        model, rng = prototype(name), torch.Generator().manual_seed(3)
        with repeatable(model, rng):
            done = train_local(model, *samples(), replace(how, fast=fast), generator=rng, loss_fn=softmax_first)
        made.append((model.state_dict(), done.loss))
    (ours, our_loss), (theirs, their_loss) = made
    assert our_loss == pytest.approx(their_loss, rel=1e-5)
    start = prototype(name).state_dict()
    for key, w in theirs.items():
        assert not torch.equal(w, start[key])
        torch.testing.assert_close(ours[key], w, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "model",
    [
        Doubled(nn.Linear(2, 2)),
        hooked(),
        frozen(),
        nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5), nn.ReLU(), nn.Linear(2, 2)),
        nn.Sequential(nn.Linear(2, 2), nn.Dropout(1.0), nn.Linear(2, 2)),
        nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 2)),
        nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)),
        nn.Sequential(nn.Linear(2, 2), nn.LeakyReLU(-0.1), nn.Linear(2, 2)),
        nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)),
        nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 2)),
        nn.Sequential(nn.Linear(2, 2), nn.ReLU()),
        nn.Sequential(nn.Linear(2, 2)).double(),
        nn.Bilinear(2, 2, 2),
    ],
    ids=[
        "subclass",
        "hook",
        "frozen",
        "dropout-first",
        "all-dropped",
        "inputs-dropped",
        "dropout-last",
        "negative-slope",
        "tanh",
        "norm",
        "relu-last",
        "double",
        "bilinear",
    ],
)
def test_everything_else_goes_through_autograd(model: nn.Module) -> None:
    assert chain_of(model) is None


def test_prototypes_that_are_more_than_perceptrons_are_no_chains() -> None:
    assert chain_of(prototype("mlp:w1a1")) is None


def test_a_shared_layer_is_no_chain() -> None:
    shared = nn.Linear(2, 2)
    assert chain_of(nn.Sequential(shared, nn.ReLU(), shared)) is None
