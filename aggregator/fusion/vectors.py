"""Updates as vectors: all of a state's tensors, one after another, in the order of the published model's names.

BatchNorm's statistics belong to the vector: a device that sends honest weights and mad statistics is an outlier too.
Distances and products are summed in float64: the square of 1e30 is infinite in float32, and infinities lose the order
of distances that robust parts live from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from aggregator.fusion.types import Received, State

__all__ = ["States", "blocks", "distances_to", "gram", "squared_distances", "to_state", "to_vector"]

VALUES = 2**26  # of all updates together, that one block holds: 256 MB
COLUMNS = 2**16  # that are turned to float64 at once


class States(Sequence[Mapping[str, Tensor]]):
    """The tensors of updates, each read when it is asked for: one in memory at a time."""

    def __init__(self, updates: Sequence[Received]) -> None:
        self.updates = updates

    def __len__(self) -> int:
        return len(self.updates)

    def __getitem__(self, index: int) -> Mapping[str, Tensor]:  # type: ignore[override]  # nobody slices it
        return self.updates[index].state()


def to_vector(state: Mapping[str, Tensor], names: Sequence[str]) -> Tensor:
    """The tensors `names` of `state` as one float32 vector (P,)."""
    return torch.cat([state[name].reshape(-1).to(torch.float32) for name in names])


def to_state(vector: Tensor, like: Mapping[str, Tensor]) -> State:
    """The inverse of `to_vector`: a state with the names and shapes of `like`."""
    parts = vector.split([w.numel() for w in like.values()])
    return {name: part.reshape(w.shape).clone() for (name, w), part in zip(like.items(), parts, strict=True)}


def blocks(states: Sequence[Mapping[str, Tensor]], *, values: int = VALUES) -> Iterator[Tensor]:
    """Coordinates of all K states, (K, B) at a time, K * B at most about `values`; several blocks read states anew."""
    names = list(states[0])
    total = sum(w.numel() for w in states[0].values())
    width = max(values // len(states), 1)
    for start in range(0, total, width):
        rows = torch.empty(len(states), min(width, total - start))
        for row, state in zip(rows, states, strict=True):
            row.copy_(to_vector(state, names)[start : start + width])
        yield rows


def squared_distances(states: Sequence[Mapping[str, Tensor]], *, values: int = VALUES) -> Tensor:
    """||w_i - w_j||^2 of all pairs (K, K), float64; each pair by itself, so equal updates are at distance 0 exactly."""
    squares = torch.zeros(len(states), len(states), dtype=torch.float64)
    for block in blocks(states, values=values):
        for part in block.split(COLUMNS, dim=1):
            wide = part.double()
            squares += torch.cdist(wide, wide, compute_mode="donot_use_mm_for_euclid_dist").square()
    return squares


def gram(
    states: Sequence[Mapping[str, Tensor]], *, centre: Mapping[str, Tensor] | None = None, values: int = VALUES
) -> Tensor:
    """<w_i - centre, w_j - centre> of all pairs (K, K), float64; without a centre, of the states themselves."""
    products = torch.zeros(len(states), len(states), dtype=torch.float64)
    middle = None if centre is None else to_vector(centre, list(states[0]))
    place = 0
    for block in blocks(states, values=values):
        for part in block.split(COLUMNS, dim=1):
            wide = part.double()
            if middle is not None:
                wide -= middle[place : place + part.shape[1]].double()
            place += part.shape[1]
            products += wide @ wide.T
    return products


def distances_to(centre: Mapping[str, Tensor], states: Sequence[Mapping[str, Tensor]]) -> Tensor:
    """||w_k - centre|| of every state (K,), float64."""
    names = list(centre)
    middle = to_vector(centre, names)
    found = torch.zeros(len(states), dtype=torch.float64)
    for k, state in enumerate(states):
        pairs = zip(to_vector(state, names).split(COLUMNS), middle.split(COLUMNS), strict=True)
        found[k] = sum(
            ((a.double() - b.double()).square().sum() for a, b in pairs), torch.zeros((), dtype=torch.float64)
        )
    return found.sqrt()
