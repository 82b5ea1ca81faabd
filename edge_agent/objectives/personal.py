"""A personal model in addition to the shared one: it stays on the device, and the fused model helps to train it.

In every round the device trains the published model f and sends an update, as always. In addition it keeps a model v of
the same prototype, which starts as the first update and is the model that the board runs. In every later round

    v <- a v + (1 - a) f
    v <- SGD on  CE(v(x), y) + lambda KL(softmax(f(x)) || softmax(v(x)))

on the device's own samples: as many steps as for the update, at the same learning rate, without a proximal term. The
mixture of own and shared model is that of Deng et al. 2020 (APFL, arXiv:2003.13461), here used as the initial weights;
the second term is distillation (Hinton et al. 2015, arXiv:1503.02531), with which Shen et al. 2020 (federated mutual
learning, arXiv:2006.16765) teach personal models. There the shared model learns from v too; here it does not, so
updates are bit-identical with and without personal models. docs/fusion.md has measurements of both terms.

`Hyper.extra` has lambda as `personal`, and a as `personal_keep`. If lambda is 0, f is not evaluated on the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from core.errors import ModelError
from edge_agent.training.local_round import packed_update, repeatable
from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import train_local
from models.compute_device import CPU, widened
from models.on_device import device_of, on_device
from models.split import Prototype
from quant.layers import weights_as_they_are
from quant.pack import load_packed, pack_state, unpack
from wire.tensors import Tensor as WireTensor

__all__ = ["Personal", "PersonalObjective", "load_personal", "teacher_logits", "train_personal"]

WEIGHT, KEEP = "personal", "personal_keep"
BATCH = 128  # of the teacher's forward pass


@dataclass(frozen=True, slots=True)
class Personal:
    """How personal models are trained."""

    weight: float  # lambda
    keep: float  # a

    @classmethod
    def from_extra(cls, extra: Mapping[str, float]) -> Personal | None:
        """The settings in a job; None: devices keep no personal models."""
        return cls(extra[WEIGHT], extra.get(KEEP, 0.5)) if WEIGHT in extra else None


@dataclass(frozen=True, slots=True)
class PersonalObjective:
    """The loss above; samples are identified by their indices, passed in place of labels."""

    y: Tensor  # (N,)
    teacher: Tensor  # f's logits (N, C)
    weight: float  # lambda

    def __call__(self, model: nn.Module, x: Tensor, numbers: Tensor) -> Tensor:
        """The loss of one batch."""
        logits = widened(model(x))
        targets = self.teacher[numbers].log_softmax(1)
        told = F.kl_div(logits.log_softmax(1), targets, reduction="batchmean", log_target=True)
        return F.cross_entropy(logits, self.y[numbers]) + self.weight * told


@torch.no_grad()
def teacher_logits(model: Prototype, published: Mapping[str, WireTensor], x: Tensor) -> Tensor:
    """Logits of the published model for all of `x`, at full precision, where `model` is; it has these weights
    afterwards."""
    load_packed(model, published)
    model.eval()
    with weights_as_they_are(model):
        return torch.cat([model(part.to(device_of(model))) for part in x.split(BATCH)])


def mixed(own: Mapping[str, WireTensor], published: Mapping[str, WireTensor], keep: float) -> dict[str, WireTensor]:
    """a v + (1 - a) f; tensors that are not float, or have no counterpart of the same shape, are the device's own."""
    mine, theirs = unpack(own), unpack(published)
    for name, w in mine.items():
        other = theirs.get(name)
        if w.is_floating_point() and other is not None and other.shape == w.shape:
            mine[name] = keep * w + (1 - keep) * other
    return pack_state(mine, floats="fp32")


def load_personal(model: Prototype, kept: Mapping[str, WireTensor] | None) -> bool:
    """Load the stored personal model into `model`; False if there is none that fits."""
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
    asked: Personal,
    floats: str,
    generator: torch.Generator,
    should_stop: Callable[[], bool] = lambda: False,
    device: torch.device = CPU,
) -> tuple[dict[str, WireTensor], dict[str, WireTensor]]:
    """The personal model in two forms: for the board, at its precision; and as stored, with its latent weights.

    `kept` is that of the previous round; without one that fits, or if it diverges, it starts as `update`, the state of
    the model that the device has just trained. It is trained on `device`; `model` has its weights afterwards.
    """
    objective, labels = None, y
    if asked.weight and kept is not None:
        with on_device(model, device):
            teacher = teacher_logits(model, published, x)
        objective, labels = PersonalObjective(y.to(device), teacher, asked.weight), torch.arange(len(y))
    begun = load_personal(model, None if kept is None else mixed(kept, published, asked.keep))
    if begun:
        alone = replace(how, prox=0.0)
        with on_device(model, device), repeatable(model, generator):
            train_local(model, x, labels, alone, generator=generator, objective=objective, should_stop=should_stop)
    if not begun or not all(bool(w.isfinite().all()) for w in model.state_dict().values()):
        load_packed(model, pack_state(update, floats="fp32"))
    packed = packed_update(model, floats=floats)
    return packed, pack_state(model.state_dict(), floats="fp32")
