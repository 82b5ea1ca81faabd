"""Seeded construction: torch's layers draw their initial weights from the global random state, so borrow it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from core.seeds import derive_seed

__all__ = ["followed", "seeded", "torch_rng"]


def torch_rng(seed: int, *purpose: object) -> torch.Generator:
    """torch's generator for `purpose`, such as `("train", round, device)`, on the CPU."""
    return torch.Generator().manual_seed(derive_seed(seed, *purpose))


@contextmanager
def seeded(generator: torch.Generator | None) -> Iterator[None]:
    """Inside, torch's CPU random state follows a seed drawn from `generator`; outside, it is as it was.

    Without a generator the seed comes from torch's global state, which so advances by one draw.
    """
    seed = _drawn(generator)
    with torch.random.fork_rng(devices=[]):
        # not torch.manual_seed: it would also seed the GPUs, whose state is not put back
        torch.default_generator.manual_seed(seed)
        yield


def followed(generator: torch.Generator) -> torch.Generator:
    """A generator of its own that draws what torch's random state draws inside `seeded(generator)`."""
    return torch.Generator().manual_seed(_drawn(generator))


def _drawn(generator: torch.Generator | None) -> int:
    return int(torch.randint(2**62, (), generator=generator, device=generator.device if generator else None))
