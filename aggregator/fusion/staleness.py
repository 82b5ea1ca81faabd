"""Stale updates of asynchronous rounds: FedBuff, Nguyen et al. 2022, arXiv:2106.06639; weights of Xie et al. 2019,
FedAsync, arXiv:1903.03934, "polynomial".

An update that was trained from version v and is fused into version t is tau = t - v versions stale, and counts as

    w_t + s(tau) (w_k - w_v),   s(tau) = (1 + tau)^-a

with a = 1/2 in FedBuff. So only what the device has learned counts, and less of it the older its start was. Tensors of
integers count as they are. Service and virtual time (fleet/virtual/) both use these functions.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

__all__ = ["EXPONENT", "discount", "moved"]

EXPONENT = 0.5


def discount(staleness: int, exponent: float = EXPONENT) -> float:
    """s(tau) = (1 + tau)^-a.

    >>> discount(0), discount(3), discount(3, 1.0), discount(3, 0.0)
    (1.0, 0.5, 0.25, 1.0)
    """
    return float((1 + staleness) ** -exponent)


def moved(
    trained: Mapping[str, Tensor], began: Mapping[str, Tensor], current: Mapping[str, Tensor], share: float
) -> dict[str, Tensor]:
    """w_t + s (w_k - w_v) of the tensors that `trained` has."""
    return {
        name: current[name] + share * (value - began[name]) if value.is_floating_point() else value
        for name, value in trained.items()
    }
