"""Images as patches and back, for convolutions of 3x3 at stride 2 with one zero around; samples are the last dimension.

    (K, C, H, W, B) -> (K, 9 C, h w B),     h = ceil(H / 2), w = ceil(W / 2)

So the convolution is a matrix product, and its inner loops run over samples, which lie side by side.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Scratch", "images_of", "patches_of", "samples_last"]


class Scratch:
    """Large tensors by name and shape, used again at every step: fresh ones cost a page fault per 4 KB."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, tuple[int, ...]], Tensor] = {}

    def __call__(self, name: str, *shape: int) -> Tensor:
        """With what was left in it; zeros at first."""
        if (name, shape) not in self._held:
            self._held[name, shape] = torch.zeros(shape)
        return self._held[name, shape]


def samples_last(x: Tensor) -> Tensor:
    """(K, B, C, H, W) with the samples last."""
    return x.permute(0, 2, 3, 4, 1)


def patches_of(x: Tensor, scratch: Scratch) -> Tensor:
    """(K, C, H, W, B) -> (K, 9 C, h w B): a zero around, windows of 3x3 at every second place."""
    models, channels, height, width, batch = x.shape
    h, w = -(-height // 2), -(-width // 2)
    padded = scratch("padded", models, channels, 2 * h + 1, 2 * w + 1, batch)  # its border stays zero
    padded[:, :, 1 : height + 1, 1 : width + 1] = x
    out = scratch("patches", models, channels, 3, 3, h, w, batch)
    for i in range(3):
        for j in range(3):
            out[:, :, i, j] = padded[:, :, i : i + 2 * h - 1 : 2, j : j + 2 * w - 1 : 2]
    return out.view(models, channels * 9, -1)


def images_of(patches: Tensor, shape: tuple[int, ...], scratch: Scratch) -> Tensor:
    """The other way: what windows share is summed."""
    models, channels, height, width, batch = shape
    h, w = -(-height // 2), -(-width // 2)
    windows = patches.view(models, channels, 3, 3, h, w, batch)
    padded = scratch("sums", models, channels, 2 * h + 1, 2 * w + 1, batch).zero_()
    for i in range(3):
        for j in range(3):
            padded[:, :, i : i + 2 * h - 1 : 2, j : j + 2 * w - 1 : 2] += windows[:, :, i, j]
    inner = padded[:, :, 1 : height + 1, 1 : width + 1]
    return scratch("inner", *shape).copy_(inner)
