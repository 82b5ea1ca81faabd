"""Seeded construction: torch's layers draw initial weights from the global random state, which is set temporarily."""

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
    """A context in which torch's CPU random state is seeded from `generator`; afterwards it is restored.

    Without a generator the seed comes from torch's global state, which thereby advances by one draw.
    """
    seed = _drawn(generator)
    with torch.random.fork_rng(devices=[]):
        # not torch.manual_seed: it would also seed the GPUs, whose state is not restored
        torch.default_generator.manual_seed(seed)
        yield


def followed(generator: torch.Generator) -> torch.Generator:
    """A generator of its own that draws what torch's random state draws inside `seeded(generator)`."""
    return torch.Generator().manual_seed(_drawn(generator))


def _drawn(generator: torch.Generator | None) -> int:
    return int(torch.randint(2**62, (), generator=generator, device=generator.device if generator else None))
