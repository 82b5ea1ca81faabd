"""Every fast path of local training against the plain one, `fast = "off"`: the same steps, to rounding."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from core.errors import ConfigError
from edge_agent.training.fast.fused_step import FusedStep
from edge_agent.training.fast.perceptron import Chain
from edge_agent.training.fast.select import fast_trainer
from edge_agent.training.local_round import repeatable
from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import train_local
from edge_agent.training.trainer import Trainer
from fleet.fast.sample_store import Shelf
from fleet.fast.stacked_perceptrons import Pupils, train_stacked
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from models.split import Prototype
from quant import spectral
from tests.edge_agent.sgd_terms import every_sgd_term

SAMPLES = 21  # batches of 8, 8 and 5


def prototype(name: str, side: int) -> Prototype:
    arch, precision = parse_prototype(name)
    return build(PrototypeSpec(arch, precision, (1, side, side), 3), generator=torch.Generator().manual_seed(1))


def samples(side: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(SAMPLES, 1, side, side, generator=torch.Generator().manual_seed(2))
    return x, x.flatten(1)[:, :3].argmax(1)


def shuffle() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def weights_of(model: Prototype) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def trained(name: str, side: int, how: LocalTraining) -> tuple[dict[str, Tensor], float]:
    model = prototype(name, side)
    with repeatable(model, shuffle()):
        done = train_local(model, *samples(side), how, generator=shuffle())
    return weights_of(model), done.loss


def stacked(name: str, side: int, how: LocalTraining) -> tuple[dict[str, Tensor], float]:
    """Three devices with the same samples as one computation; the second of them."""
    (x, y), model = samples(side), prototype(name, side)
    pupils = Pupils(
        Shelf(x.flatten(1)), torch.arange(SAMPLES).repeat(3), y.repeat(3), [SAMPLES] * 3, [shuffle() for _ in range(3)]
    )
    stack = train_stacked(model, pupils, how)
    stack.put_into(model, 1)
    return weights_of(model), stack.trained(1).loss


#: name: what it is tried on, how, and the trainer that takes its steps.
PATHS = {
    "perceptron": ("mlp:fp32", 4, trained, Chain),
    "perceptron, 1-bit": ("mlp:w1", 4, trained, Chain),
    "perceptron with dropout": ("fedrad_mlp:fp32", 4, trained, Chain),
    "spectral": ("mcmahan_cnn:fp32", 28, trained, None),
    "spectral, 1-bit": ("mcmahan_cnn:w1", 28, trained, None),
    "stacked perceptrons": ("mlp:fp32", 4, stacked, Chain),
    "stacked perceptrons with dropout": ("fedrad_mlp:fp32", 4, stacked, Chain),
    "stacked perceptrons, 1-bit": ("mlp:w1", 4, stacked, Chain),
}


@pytest.mark.parametrize("path", PATHS)
@every_sgd_term
def test_a_fast_path_takes_the_steps_of_the_plain_one(path: str, extra: dict[str, float]) -> None:
    name, side, train, _ = PATHS[path]
    how = LocalTraining(lr=0.05, batch_size=8, epochs=2, **extra)
    start = weights_of(prototype(name, side))
    fast, fast_loss = train(name, side, how)
    plain, plain_loss = trained(name, side, replace(how, fast="off"))
    moved = sum(float((w - start[n]).norm()) for n, w in plain.items())
    apart = sum(float((w - fast[n]).norm()) for n, w in plain.items())
    assert moved > 0.01
    assert apart < 2e-3 * moved  # a sign of a 1-bit weight may fall on the other side
    assert fast_loss == pytest.approx(plain_loss, rel=1e-3)


@pytest.mark.parametrize("extra", [{}, {"weight_decay": 0.05}], ids=["plain", "weight decay"])
def test_a_fused_step_is_the_plain_one(extra: dict[str, float]) -> None:
    how = LocalTraining(lr=0.05, batch_size=8, epochs=2, **extra)
    assert isinstance(taken("mcmahan_cnn:fp32", 28, how), FusedStep)
    fast, _ = trained("mcmahan_cnn:fp32", 28, how)
    plain, _ = trained("mcmahan_cnn:fp32", 28, replace(how, fast="off"))
    for name, w in plain.items():
        torch.testing.assert_close(fast[name], w, rtol=1e-4, atol=1e-5)


def taken(name: str, side: int, how: LocalTraining) -> Trainer | None:
    return fast_trainer(prototype(name, side), *samples(side), how, F.cross_entropy, None)


@pytest.mark.parametrize("path", PATHS)
def test_the_path_is_taken_where_it_is_on_and_only_there(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, side, _, trainer = PATHS[path]
    how = LocalTraining(lr=0.05, batch_size=8, steps=1, momentum=0.9)
    found = taken(name, side, how)
    assert found is None if trainer is None else isinstance(found, trainer)
    calls = 0
    apply = spectral._Spectral.apply

    def counted(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        return apply(*arguments)

    monkeypatch.setattr(spectral._Spectral, "apply", counted)
    monkeypatch.setattr("edge_agent.training.sgd.fast_trainer", pytest.fail)
    trained(name, side, replace(how, fast="off"))
    assert calls == 0
    monkeypatch.undo()
    if "spectral" in path and spectral._HAS_MKL:
        monkeypatch.setattr(spectral._Spectral, "apply", counted)
        trained(name, side, how)
        assert calls > 0


def test_another_word_than_auto_and_off_is_refused() -> None:
    with pytest.raises(ConfigError, match="fast is 'on'; give auto or off"):
        LocalTraining(lr=0.1, batch_size=2, steps=1, fast="on")
