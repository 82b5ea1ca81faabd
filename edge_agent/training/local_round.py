"""A device's work in a round: start from the published model, train on its own samples, pack what goes up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn
from torch.nn import functional as F

from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import Objective, Trained, train_local
from edge_agent.training.trainer import LossFunction
from models.seeding import followed, seeded
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
) -> tuple[dict[str, Tensor], Trained]:
    """The tensors of a `state` update and how the training went; `model` holds the trained weights afterwards.

    The published model is full precision; for a quantized prototype it is the latent weight that training starts from:
    as in FedDF's 1-bit experiment, float comes down and quantized weights go up. The model is snapped to the wire's
    floats before it is packed, so that what the device measures of it is what the aggregator gets.
    """
    load_packed(model, decode(published) if isinstance(published, bytes) else published)
    with repeatable(model, generator):
        trained = train_local(
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
    """The tensors of a `state` update of the trained `model`, which is snapped to what they carry."""
    snap_(model, floats=floats)
    return pack(model, floats=floats)


def repeatable(model: nn.Module, generator: torch.Generator) -> AbstractContextManager[None]:
    """Dropout draws from torch's own random state: let it follow from `generator`'s seed, which is not advanced."""
    drops = any(isinstance(module, nn.modules.dropout._DropoutNd) and module.p for module in model.modules())
    return seeded(_of_dropout(generator)) if drops else nullcontext()


def dropout_rng(generator: torch.Generator) -> torch.Generator:
    """A generator of its own that draws as dropout does where it is `repeatable`."""
    return followed(_of_dropout(generator))


def _of_dropout(generator: torch.Generator) -> torch.Generator:
    return torch.Generator().manual_seed(generator.initial_seed() ^ 1)
