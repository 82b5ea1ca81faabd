"""A device's work in a round: start from the published model, train on its own samples, pack the update."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn
from torch.nn import functional as F

from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import Objective, Trained, train_local
from edge_agent.training.trainer import LossFunction
from models.compute_device import CPU
from models.on_device import device_of, on_device, seeded_on
from models.seeding import followed
from quant.pack import load_packed, pack, snap_
from wire.tensors import Tensor, decode

__all__ = ["dropout_rng", "local_update", "packed_update", "repeatable"]


def local_update(
    model: nn.Module,
    published: bytes | Mapping[str, Tensor],
    x: torch.Tensor,
    y: torch.Tensor,
    how: LocalTraining,
    *,
    floats: str,
    generator: torch.Generator,
    loss_fn: LossFunction = F.cross_entropy,
    objective: Objective | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    order: Iterable[torch.Tensor] | None = None,
    device: torch.device = CPU,
    loop: Callable[..., Trained] = train_local,
) -> tuple[dict[str, Tensor], Trained]:
    """The tensors of a `state` update and the result of training; `model` has the trained weights afterwards.

    The published model is full precision; for a quantized prototype it is the latent weight that training starts from:
    as in FedDF's 1-bit experiment, downloads are float and uploads quantized. The model is snapped to the wire's floats
    before it is packed, so that the device measures the same model that the aggregator receives. It is trained on
    `device`, and is on the CPU afterwards. `loop` takes the arguments of `train_local`.
    """
    load_packed(model, decode(published) if isinstance(published, bytes) else published)
    with on_device(model, device), repeatable(model, generator):
        trained = loop(
            model,
            x,
            y,
            how,
            generator=generator,
            loss_fn=loss_fn,
            objective=objective,
            should_stop=should_stop,
            order=order,
        )
    return packed_update(model, floats=floats), trained


def packed_update(model: nn.Module, *, floats: str) -> dict[str, Tensor]:
    """The tensors of a `state` update of the trained `model`, which is snapped to the sent values."""
    snap_(model, floats=floats)
    return pack(model, floats=floats)


def repeatable(model: nn.Module, generator: torch.Generator) -> AbstractContextManager[None]:
    """Draw the masks of dropout from `generator`'s seed; `generator` is not advanced."""
    drops = any(
        (isinstance(module, nn.modules.dropout._DropoutNd) and module.p) or getattr(module, "may_draw", False)
        for module in model.modules()
    )
    return seeded_on(device_of(model), _of_dropout(generator), model) if drops else nullcontext()


def dropout_rng(generator: torch.Generator) -> torch.Generator:
    """A generator of its own that draws as dropout does where it is `repeatable`."""
    return followed(_of_dropout(generator))


def _of_dropout(generator: torch.Generator) -> torch.Generator:
    return torch.Generator().manual_seed(generator.initial_seed() ^ 1)
