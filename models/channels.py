"""Where the channels of images lie in memory: last where that is faster."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["channels_last_"]

#: Networks with a convolution that reads so many channels train 1.1 to 1.7 times as fast with the channels last; small
#: ones, such as FedGen's CNN, do not, and as students are a tenth slower.
WIDE = 16


def channels_last_(model: nn.Module) -> bool:
    """Put the channels of the model's filters last, if it is faster so; whether that was done."""
    wide = any(p.ndim == 4 and p.shape[1] >= WIDE for p in model.parameters())
    if wide:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
    return wide
