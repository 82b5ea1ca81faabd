"""Updates as vectors: a state's tensors, one after another, in the order of the first update's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from aggregator.fusion.types import Received, State

__all__ = ["States", "blocks", "is_statistic", "to_state", "to_vector"]

VALUES = 2**26  # of all updates together, in memory at once: 256 MB
AT_ONCE = 2**21  # of them, yielded at once: a copy in float64 needs 16 MB more


def is_statistic(name: str) -> bool:
    """Whether the tensor called `name` is a running statistic: measured, not trained."""
    return name.rpartition(".")[2] in ("running_mean", "running_var")


class States(Sequence[Mapping[str, Tensor]]):
    """The tensors of updates, loaded lazily: one in memory at a time."""

    def __init__(self, updates: Sequence[Received]) -> None:
        self.updates = updates

    def __len__(self) -> int:
        return len(self.updates)

    def __getitem__(self, index: int) -> Mapping[str, Tensor]:  # type: ignore[override]  # never sliced
        return self.updates[index].state()


def to_vector(state: Mapping[str, Tensor], names: Sequence[str]) -> Tensor:
    """The tensors `names` of `state` as one float32 vector (P,)."""
    return torch.cat([state[name].reshape(-1).to(torch.float32) for name in names])


def to_state(vector: Tensor, like: Mapping[str, Tensor]) -> State:
    """The inverse of `to_vector`: a state with the names and shapes of `like`."""
    parts = vector.split([w.numel() for w in like.values()])
    return {name: part.reshape(w.shape).clone() for (name, w), part in zip(like.items(), parts, strict=True)}


def blocks(
    states: Sequence[Mapping[str, Tensor]], names: Sequence[str] | None = None, *, values: int = VALUES
) -> Iterator[Tensor]:
    """Coordinates of all K states, (K, B) at a time; of the tensors `names`, or of all.

    At most about `values` numbers, K * B, are in memory at once; larger rounds are read several times in parts.
    """
    names = list(states[0]) if names is None else names
    total = sum(states[0][name].numel() for name in names)
    width = max(values // len(states), 1)
    for start in range(0, total, width):
        rows = torch.empty(len(states), min(width, total - start))
        for row, state in zip(rows, states, strict=True):
            row.copy_(to_vector(state, names)[start : start + width])
        yield from rows.split(max(AT_ONCE // len(states), 1), dim=1)
