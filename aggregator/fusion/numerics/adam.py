"""Adam with explicit moments, so that they can be kept across rounds and restarts.

g <- g + lambda w                     L2, coupled as in Kingma and Ba; not AdamW
m <- b1 m + (1 - b1) g,    v <- b2 v + (1 - b2) g^2
w <- w - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)        Kingma and Ba 2015, Algorithm 1

The step is `torch.optim.adam.adam`, the function behind `torch.optim.Adam`, with the fused kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.adam import adam

__all__ = ["Adam", "lying_as"]

BETA_1, BETA_2, EPS = 0.9, 0.999, 1e-8


class Adam:
    """First and second moments of a list of parameters, and their number of steps."""

    def __init__(self, first: list[Tensor], second: list[Tensor], steps: int = 0) -> None:
        self.first, self.second = first, second
        self._counts = [
            torch.full((), float(steps), device=m.device) for m in first
        ]  # torch counts in place, by tensor

    @classmethod
    def fresh(cls, params: Sequence[Tensor]) -> Adam:
        """Nothing seen yet."""
        return cls([torch.zeros_like(p) for p in params], [torch.zeros_like(p) for p in params])

    def to(self, device: torch.device) -> Adam:
        """The same moments on `device`."""
        return Adam([m.to(device) for m in self.first], [v.to(device) for v in self.second], self.steps)

    @property
    def steps(self) -> int:
        """Number of steps so far, including those before a restart."""
        return int(self._counts[0])

    @torch.no_grad()
    def step(self, params: Sequence[Tensor], grads: Sequence[Tensor], *, lr: float, weight_decay: float = 0.0) -> None:
        """Update `params` in place: one pass over each, not one per operation."""
        params = list(params)
        for m, v, p in zip(self.first, self.second, params, strict=True):
            assert m.stride() == v.stride() == p.stride(), "moments lie as their parameters do"
        adam(
            params,
            [lying_as(p, g) for p, g in zip(params, grads, strict=True)],
            self.first,
            self.second,
            [],
            self._counts,
            fused=True,
            lr=lr,
            beta1=BETA_1,
            beta2=BETA_2,
            weight_decay=weight_decay,
            eps=EPS,
            amsgrad=False,
            maximize=False,
        )


def lying_as(p: Tensor, g: Tensor) -> Tensor:
    """Fused kernels use memory order: a gradient must have the memory layout of its parameter."""
    return g if g.stride() == p.stride() else torch.empty_like(p).copy_(g)
