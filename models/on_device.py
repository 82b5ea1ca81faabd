"""A model on its compute device for a while, and random masks that do not depend on the device.

torch draws the masks of dropout on the device where the model is, by a generator of that device: other masks on each.
Within `seeded_on`, masks of `nn.Dropout` on another device than the CPU are drawn on the CPU, by the call that
`nn.Dropout` makes there, and moved. What else draws on the device (a user's `F.dropout`) is seeded, and differs from
the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from models.seeding import followed, seeded

__all__ = ["device_of", "on_device", "seeded_on"]


def device_of(model: nn.Module) -> torch.device:
    """Where the parameters of `model` are; the CPU if it has none."""
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


@contextmanager
def on_device(model: nn.Module, device: torch.device) -> Iterator[None]:
    """`model` is on `device` within this context, and on the CPU afterwards."""
    if device.type == "cpu":
        yield
        return
    model.to(device)
    try:
        yield
    finally:
        model.cpu()


@contextmanager
def seeded_on(device: torch.device, generator: torch.Generator, model: nn.Module) -> Iterator[None]:
    """A context in which the random masks of `model` on `device` come from `generator`: the same on every device.

    `generator` advances by one draw. On the CPU torch's global random state is seeded; elsewhere it is not touched, so
    models may train in several threads.
    """
    if device.type == "cpu":
        with seeded(generator):
            yield
        return
    own = followed(generator)
    _seed_device(device, own.initial_seed())
    dropping = [m for m in model.modules() if type(m) is nn.Dropout and 0 < m.p < 1 and "forward" not in vars(m)]
    try:
        for module in dropping:
            module.forward = partial(_drop, module, own)  # type: ignore[method-assign]
        yield
    finally:
        for module in dropping:
            del module.forward


def _drop(module: nn.Dropout, generator: torch.Generator, x: Tensor) -> Tensor:
    if not module.training:
        return x
    keep = 1 - module.p
    mask = torch.empty(x.shape).bernoulli_(keep, generator=generator).div_(keep)
    return x * mask.to(x.device, x.dtype)


def _seed_device(device: torch.device, seed: int) -> None:
    """Seed the device's own random state, which nothing else relies on."""
    module = getattr(torch, device.type, None)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
    elif module is not None and hasattr(module, "manual_seed"):
        module.manual_seed(seed)
