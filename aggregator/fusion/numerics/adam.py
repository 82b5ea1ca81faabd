"""Adam with the moments in the caller's hands, so that they can be kept across rounds and restarts.

g <- g + lambda w                     L2, coupled as in Kingma and Ba; not AdamW
m <- b1 m + (1 - b1) g,    v <- b2 v + (1 - b2) g^2
w <- w - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)        Kingma and Ba 2015, Algorithm 1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Adam"]

BETA_1, BETA_2, EPS = 0.9, 0.999, 1e-8


@dataclass(slots=True)
class Adam:
    """First and second moments of a list of parameters, and how many steps they have seen."""

    first: list[Tensor]
    second: list[Tensor]
    steps: int = 0

    @classmethod
    def fresh(cls, params: Sequence[Tensor]) -> Adam:
        """Nothing seen yet."""
        return cls([torch.zeros_like(p) for p in params], [torch.zeros_like(p) for p in params])

    @torch.no_grad()
    def step(self, params: Sequence[Tensor], grads: Sequence[Tensor], *, lr: float, weight_decay: float = 0.0) -> None:
        """Move `params` in place: one pass over the numbers of each, not one per operation."""
        self.steps += 1
        params = list(params)
        for m, v, p in zip(self.first, self.second, params, strict=True):
            assert m.stride() == v.stride() == p.stride(), "moments lie as their parameters do"
        torch._fused_adam_(
            params,
            [_lying_as(p, g) for p, g in zip(params, grads, strict=True)],
            self.first,
            self.second,
            [],
            [torch.tensor(float(self.steps), device=params[0].device)] * len(params),
            lr=lr,
            beta1=BETA_1,
            beta2=BETA_2,
            weight_decay=weight_decay,
            eps=EPS,
            amsgrad=False,
            maximize=False,
        )


def _lying_as(p: Tensor, g: Tensor) -> Tensor:
    """The fused kernel takes the numbers in the order of memory: those of a gradient must lie as the parameter's do."""
    return g if g.stride() == p.stride() else torch.empty_like(p).copy_(g)
