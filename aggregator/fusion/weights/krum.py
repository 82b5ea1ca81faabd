"""Multi-Krum: average the updates closest to their neighbours (Blanchard et al. 2017, arXiv:1703.02757)."""

from __future__ import annotations

import torch
from torch import Tensor

from aggregator.fusion.numerics.geometry import squared_distances
from aggregator.fusion.numerics.vectors import States
from aggregator.fusion.options import flag, whole
from aggregator.fusion.types import View
from aggregator.fusion.weights.order import by_device

__all__ = ["krum", "krum_scores", "most_faulty", "multi_krum", "shifted_krum"]


@by_device
def krum(view: View) -> list[float]:
    """The part `krum`: 1 for the m updates of Multi-Krum, 0 for the rest. Ties are broken by device id.

    Options: `krum_f`, the number of faulty devices (by default the maximum that Krum tolerates; larger values are
    reduced to it, because a round may have few devices); `krum_m`, the number of averaged updates (K - f);
    `krum_reference`, the selection of FedRAD's code, see `shifted_krum`.
    """
    K = len(view.updates)
    f = min(whole(view, "krum_f", most_faulty(K), low=0), most_faulty(K))
    m = min(whole(view, "krum_m", K - f, low=1), K)
    squares = squared_distances(States(view.updates))
    chosen = shifted_krum(squares, f) if flag(view, "krum_reference") else multi_krum(squares, f, m)
    return [1.0 if k in chosen else 0.0 for k in range(K)]


def most_faulty(devices: int) -> int:
    """f = floor((K - 3) / 2), the largest with 2 f + 2 < K; 0 if K is below 5: no device can be distinguished."""
    return max((devices - 3) // 2, 0)


def multi_krum(squares: Tensor, f: int, m: int) -> list[int]:
    """The m updates with the smallest scores, in the order of their scores; `squares` (K, K) as in `krum_scores`."""
    return torch.argsort(krum_scores(squares, f), stable=True)[:m].tolist()


def krum_scores(distances: Tensor, f: int) -> Tensor:
    """s(i) = sum_{i -> j} ||w_i - w_j||^2 over the K - f - 2 updates j that are closest to i      (section 4)

    `distances` (K, K) has the terms of the sum. With K below f + 3 only the closest one is used; a single update scores
    0.
    """
    K = len(distances)
    others = distances.clone().fill_diagonal_(float("inf")).sort(dim=1).values[:, : K - 1]
    return others[:, : max(K - f - 2, 1)].sum(dim=1)


def shifted_krum(squares: Tensor, f: int) -> list[int]:
    """The selection of FedRAD's code for Multi-Krum (Sturluson et al. 2021), which deviates from it; for comparison.

    Distances are not squared; of m = K - f, the best m - 1 are chosen, and the device with the next index is averaged
    instead of each, an off-by-one of ids that start at 1; the last has no successor. With every third device an
    attacker this selects attackers. There the weights are 1/m each and do not sum to 1; here averages divide by their
    sum.
    """
    K = len(squares)
    best = multi_krum(squares.sqrt(), f, K - f - 1)
    return [k + 1 for k in best if k + 1 < K] or list(range(K))
