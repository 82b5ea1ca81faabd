"""Multi-Krum: average those updates that lie closest to their neighbours (Blanchard et al. 2017, arXiv:1703.02757)."""

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
    """The part `krum`: 1 for the m updates of Multi-Krum, 0 for the rest. Ties go by device id.

    Options: `krum_f`, how many devices may be faulty (the most that Krum tolerates, by default; more than that is
    lowered to it, as a round may have few devices); `krum_m`, how many are averaged (K - f); `krum_reference`, the
    selection of FedRAD's code, see `shifted_krum`.
    """
    K = len(view.updates)
    f = min(whole(view, "krum_f", most_faulty(K), low=0), most_faulty(K))
    m = min(whole(view, "krum_m", K - f, low=1), K)
    squares = squared_distances(States(view.updates))
    chosen = shifted_krum(squares, f) if flag(view, "krum_reference") else multi_krum(squares, f, m)
    return [1.0 if k in chosen else 0.0 for k in range(K)]


def most_faulty(devices: int) -> int:
    """f = floor((K - 3) / 2), the largest with 2 f + 2 < K; 0 where K is below 5: nobody can be told apart."""
    return max((devices - 3) // 2, 0)


def multi_krum(squares: Tensor, f: int, m: int) -> list[int]:
    """The m updates with the smallest scores, in the order of their scores; `squares` (K, K) as in `krum_scores`."""
    return torch.argsort(krum_scores(squares, f), stable=True)[:m].tolist()


def krum_scores(distances: Tensor, f: int) -> Tensor:
    """s(i) = sum_{i -> j} ||w_i - w_j||^2 over the K - f - 2 updates j that are closest to i      (section 4)

    `distances` (K, K) has the terms of the sum. With K below f + 3 the closest one is taken; one update alone scores 0.
    """
    K = len(distances)
    others = distances.clone().fill_diagonal_(float("inf")).sort(dim=1).values[:, : K - 1]
    return others[:, : max(K - f - 2, 1)].sum(dim=1)


def shifted_krum(squares: Tensor, f: int) -> list[int]:
    """What FedRAD's code averages for Multi-Krum (Sturluson et al. 2021): not Multi-Krum, and only to explain its row.

    Distances are not squared; of m = K - f, the best m - 1 are chosen, and of each its right neighbour is averaged,
    because ids once counted from 1; the neighbour of the last is nobody. With every third device an attacker this
    picks attackers. There the weights are 1/m each and do not sum to 1; here averages divide by their sum.
    """
    K = len(squares)
    best = multi_krum(squares.sqrt(), f, K - f - 1)
    return [k + 1 for k in best if k + 1 < K] or list(range(K))
