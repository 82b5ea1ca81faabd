"""Distances and inner products of updates, used by robust weights.

They are summed in float64: the square of 1e30 is infinite in float32, and infinities lose the order of distances.

Papers compare parameters. A device that sends honest parameters and absurd BatchNorm statistics must be detected, too;
but variances of hundreds would dominate the parameters in a common sum. So if a prototype has statistics, parameters
and statistics are measured separately, each in units of a median (which bad devices do not determine while they are
fewer than half), and then added. For prototypes without BatchNorm the values are those of the papers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from aggregator.fusion.numerics.vectors import VALUES, blocks, is_statistic, to_vector

__all__ = ["distances_to", "gram", "squared_distances"]

States = Sequence[Mapping[str, Tensor]]


def squared_distances(states: States, *, values: int = VALUES) -> Tensor:
    """||w_i - w_j||^2 of all pairs (K, K); each pair separately, so equal updates have distance exactly 0."""

    def squares(block: Tensor) -> Tensor:
        return torch.cdist(block, block, compute_mode="donot_use_mm_for_euclid_dist").square()

    def typical(distances: Tensor) -> Tensor:
        # with 3 of 10 devices bad, most pairs contain a bad one, but most pairs of a good device do not
        others = distances.sort(dim=1).values[:, 1:]
        return others.median(dim=1).values.median()

    return _measured(states, None, squares, typical if len(states) > 1 else torch.max, values)


def gram(states: States, *, centre: Mapping[str, Tensor] | None = None, values: int = VALUES) -> Tensor:
    """<w_i - centre, w_j - centre> of all pairs (K, K); without a centre, of the states themselves."""
    return _measured(
        states, centre, lambda block: block @ block.T, lambda products: products.diagonal().median(), values
    )


def distances_to(centre: Mapping[str, Tensor], states: States, *, values: int = VALUES) -> Tensor:
    """||w_k - centre|| of every state (K,)."""
    return _measured(states, centre, lambda block: block.square().sum(dim=1), torch.median, values).sqrt()


def _measured(
    states: States,
    centre: Mapping[str, Tensor] | None,
    measure: Callable[[Tensor], Tensor],
    typical: Callable[[Tensor], Tensor],
    values: int,
) -> Tensor:
    """The sum of `measure` over blocks (K, B) of coordinates, minus those of `centre`; each kind in its own unit."""
    kinds = [[name for name in states[0] if is_statistic(name) is kind] for kind in (False, True)]
    sums = [_summed(states, names, centre, measure, values) for names in kinds if names]
    if len(sums) == 1:
        return sums[0]
    units = [typical(part) for part in sums]
    return torch.stack([part / (unit if unit > 0 else 1.0) for part, unit in zip(sums, units, strict=True)]).sum(dim=0)


def _summed(
    states: States,
    names: Sequence[str],
    centre: Mapping[str, Tensor] | None,
    measure: Callable[[Tensor], Tensor],
    values: int,
) -> Tensor:
    middle = None if centre is None else to_vector(centre, names)
    total, place = torch.zeros((), dtype=torch.float64), 0
    for block in blocks(states, names, values=values):
        wide = block.double()
        if middle is not None:
            wide -= middle[place : place + block.shape[1]]
        place += block.shape[1]
        total = total + measure(wide)
    return total
