"""COMED: the coordinate-wise median of the devices' tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from aggregator.fusion.averages.mean import keep_previous, trusted
from aggregator.fusion.numerics.vectors import VALUES, blocks, to_state
from aggregator.fusion.types import State, View

__all__ = ["coordinate_median", "median"]


def median(view: View, weights: Sequence[float]) -> State:
    """The part `median`: the coordinate-wise median of all updates whose weight is not 0, each counted once."""
    states = trusted(view, weights)
    return coordinate_median(states) if len(states) else keep_previous(view)


def coordinate_median(states: Sequence[Mapping[str, Tensor]], *, values: int = VALUES) -> State:
    """w[c] = median_k w_k[c] for every coordinate c      Yin et al. 2018, Definition 1, arXiv:1803.01498

    For an even number of values it is the lower median, as in FedRAD's comparison. At most about `values` numbers are
    in memory at once; if all updates together have more, coordinates are processed in blocks and the updates are read
    again.
    """
    parts = [block.median(dim=0).values for block in blocks(states, values=values)]
    return to_state(torch.cat(parts), states[0])
