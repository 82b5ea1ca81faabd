"""A personal model beside the shared one: the device keeps it, and the fused model only teaches it.

    L(v) = CE(v(x), y) + lambda T^2 KL(softmax(f(x) / T) || softmax(v(x) / T))

f is the published model of the round as it is, before the device trains it; v the personal model, of the same
prototype, which the device has kept since the round before. It trains on the device's own samples as the update does:
as many steps, at the same rate, without a proximal term. The first v is the first update itself. The distillation is
that of Hinton et al. 2015 (arXiv:1503.02531); learning from the global model beside one's own labels that of Shen et
al. 2020 (federated mutual learning, arXiv:2006.16765), in which the shared model learns from v too: here it does not,
so that updates are the same, bit by bit, with and without personal models.

`Hyper.extra["personal"]` is lambda. f answers all samples once; then its place in memory is v's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edge_agent.hyper import LocalTraining
from edge_agent.train import train_local
from edge_agent.work import packed_update, repeatable
from models.split import Prototype
from quant.layers import weights_as_they_are
from quant.pack import load_packed, pack_state
from wire.errors import ModelError
from wire.tensors import Tensor as WireTensor

__all__ = ["WEIGHT", "PersonalObjective", "keeps_personal", "load_personal", "teacher_logits", "train_personal"]

WEIGHT = "personal"
TEMPERATURE = 1.0
BATCH = 128  # samples that the teacher answers at a time


def keeps_personal(extra: Mapping[str, float]) -> bool:
    """Whether the job asks devices to keep personal models."""
    return WEIGHT in extra


@dataclass(frozen=True, slots=True)
class PersonalObjective:
    """The loss above; samples are told apart by their numbers, which stand in place of labels."""

    y: Tensor  # (N,)
    teacher: Tensor  # f's logits (N, C)
    weight: float  # lambda

    def __call__(self, model: nn.Module, x: Tensor, numbers: Tensor) -> Tensor:
        """The loss of one batch."""
        logits = model(x)
        loss = F.cross_entropy(logits, self.y[numbers])
        if not self.weight:
            return loss
        targets = (self.teacher[numbers] / TEMPERATURE).log_softmax(1)
        own = (logits / TEMPERATURE).log_softmax(1)
        told = F.kl_div(own, targets, reduction="batchmean", log_target=True)
        return loss + self.weight * TEMPERATURE**2 * told


@torch.no_grad()
def teacher_logits(model: Prototype, published: Mapping[str, WireTensor], x: Tensor) -> Tensor:
    """What the published model answers to all of `x`, at full precision; `model` holds it afterwards."""
    load_packed(model, published)
    model.eval()
    with weights_as_they_are(model):
        return torch.cat([model(part) for part in x.split(BATCH)])


def load_personal(model: Prototype, kept: Mapping[str, WireTensor] | None) -> bool:
    """Put the kept personal model into `model`; whether there is one that fits."""
    if kept is None:
        return False
    try:
        load_packed(model, kept)
    except ModelError:
        return False  # of another shape: the fleet has changed its latent width or its input
    return True


def train_personal(
    model: Prototype,
    kept: Mapping[str, WireTensor] | None,
    published: Mapping[str, WireTensor],
    update: Mapping[str, Tensor],
    x: Tensor,
    y: Tensor,
    how: LocalTraining,
    *,
    weight: float,
    floats: str,
    generator: torch.Generator,
    should_stop: Callable[[], bool] = lambda: False,
) -> tuple[dict[str, WireTensor], dict[str, WireTensor]]:
    """The personal model for the board, and as the device keeps it: at its precision, and with its latent weights.

    `kept` is that of the round before; without one that fits, or if it diverges, it begins as `update`, the state of
    the model that the device has just trained. `model` holds it afterwards.
    """
    teacher = teacher_logits(model, published, x)
    begun = load_personal(model, kept)
    if begun:
        objective = PersonalObjective(y, teacher, weight)
        with repeatable(model, generator):
            train_local(
                model,
                x,
                torch.arange(len(y)),
                replace(how, prox=0.0),
                generator=generator,
                objective=objective,
                should_stop=should_stop,
            )
    if not begun or not all(bool(w.isfinite().all()) for w in model.state_dict().values()):
        load_packed(model, pack_state(update, floats="fp32"))
    packed = packed_update(model, floats=floats)
    return packed, pack_state(model.state_dict(), floats="fp32")
