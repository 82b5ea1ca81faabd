"""Behaviour of FedRAD's code (Sturluson et al. 2021) that no user would want, as hooks of the simulated fleet.

Its loss is a cross-entropy that takes probabilities for logits. Its dropout is never switched off: neither in testing
nor in the teachers, whose logits, medians and scores all contain that noise.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aggregator.evaluate import Counted, count
from aggregator.fusion.teachers.logits import Forward
from aggregator.fusion.types import Received
from edge_agent.training.fast.perceptron import draw_mask_
from models.build import build
from models.seeding import torch_rng
from models.spec import PrototypeSpec
from models.split import Prototype

__all__ = ["DropoutTeacher", "count_with_dropout", "dropout_teacher", "dropping", "softmax_first"]


def softmax_first(logits: Tensor, y: Tensor) -> Tensor:
    """CE(softmax(z), y): bounded, with damped gradients."""
    return F.cross_entropy(logits.softmax(1), y)


@contextmanager
def dropping(model: nn.Module, rng: torch.Generator) -> Iterator[None]:
    """Context in which `model` applies dropout in evaluation mode too, drawn from `rng` only, hence thread-safe."""

    def drop(module: nn.Dropout, _: object, x: Tensor) -> Tensor:
        return x * draw_mask_(torch.empty_like(x), module.p, rng)

    drops = [module for module in model.modules() if isinstance(module, nn.Dropout) and module.p]
    handles = [module.register_forward_hook(drop) for module in drops]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def count_with_dropout(model: nn.Module, x: Tensor, y: Tensor, *, seed: int) -> list[Counted]:
    """Correct predictions and losses with dropout on; the masks are the same in every round."""
    with dropping(model, torch_rng(seed, "test")):
        return count(model, x, y)


def dropout_teacher(spec: PrototypeSpec, update: Received, round_number: int, *, seed: int) -> DropoutTeacher:
    """A teacher of round `round_number` with dropout on."""
    rng = torch_rng(seed, "dropout", round_number, update.device)
    return DropoutTeacher(device=update.device, spec=spec, update=update, rng=rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropoutTeacher:
    """A received model with dropout on."""

    device: str
    spec: PrototypeSpec
    update: Received
    rng: torch.Generator

    @property
    def classes(self) -> int | None:
        """The number of classes."""
        return self.spec.classes

    def prepare(self, where: torch.device) -> None:
        """Build the prototype in one thread, because that uses torch's global random state."""
        _template(self.spec)

    def open(self, where: torch.device) -> Forward:
        """The loaded model's forward function."""
        model = copy.deepcopy(_template(self.spec)).to(where).eval()
        model.load_state_dict(dict(self.update.state()))
        return functools.partial(_answer, model, where, self.rng)


@functools.cache
def _template(spec: PrototypeSpec) -> Prototype:
    return build(spec, generator=torch.Generator().manual_seed(0))


@torch.inference_mode()
def _answer(model: nn.Module, where: torch.device, rng: torch.Generator, x: Tensor) -> Tensor:
    with dropping(model, rng):
        logits: Tensor = model(x.to(where))
    return logits.float().cpu()
