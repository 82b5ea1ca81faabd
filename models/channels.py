"""Memory layout of images: channels last if that is faster."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["channels_last_"]

#: Networks with a convolution of at least this many input channels train 1.1 to 1.7 times as fast with channels last;
#: smaller ones, such as FedGen's CNN, do not, and as students are a tenth slower.
WIDE = 16


def channels_last_(model: nn.Module) -> bool:
    """Convert the model's filters to channels last if that is faster; return whether it was done."""
    wide = any(p.ndim == 4 and p.shape[1] >= WIDE for p in model.parameters())
    if wide:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
    return wide
