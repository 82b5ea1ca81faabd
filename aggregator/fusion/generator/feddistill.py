"""FedDistill on the aggregator: the mean over devices of their mean logits per label (Jeong et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from core.errors import RoundError

__all__ = ["average_label_logits"]


def average_label_logits(means: Sequence[Tensor], seen: Tensor | None = None) -> Tensor:
    """T (C, C) from the devices' (C, C).

    seen (K, C), true where a device has the label:   T_y = mean of row y over the devices that have y
    without                                           over all devices, including zeros of unseen labels: the authors'
    code
    """
    if not means:
        raise RoundError("no label logits to average")
    stacked = torch.stack([mean.float() for mean in means])  # (K, C, C)
    if seen is None:
        return stacked.mean(0)
    have = seen.to(stacked.dtype)[:, :, None]
    return (stacked * have).sum(0) / have.sum(0).clamp(min=1.0)
