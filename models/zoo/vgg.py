"""VGG-9 as FedDF trains it: no normalization, no dropout, one linear layer; 2,308,810 parameters at CIFAR-10.

3x3 convolutions with bias, M = 2x2 max pooling:  32 M 64 M 128 128 M 256 256 M 256 256 M

Without norms, `vgg9:w1a1` needs a small learning rate: on 8x8 digits, Adam at 2e-4 reached 0.81 in 4 epochs, while at
1e-3 it was still at chance after 2.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from models.zoo.common import he_normal_, image_shape
from quant.layers import Layers

__all__ = ["VGG", "vgg9"]

STAGES = ((32,), (64,), (128, 128), (256, 256), (256, 256))  # channels; a pooling ends each stage


class VGG(nn.Module):
    """The stages, then the average over the remaining positions: one up to 32x32.

    An input that 5 halvings would reduce below 1x1 skips the first ones, so that the late layers have the same map
    sizes as at 32x32: 8x8 is halved in the last three stages. Odd sizes round up. The initial weights are He's with
    fan-in: there is no norm, and with torch's default the signal would vanish.
    """

    def __init__(self, layers: Layers, channels: int, height: int, width: int) -> None:
        super().__init__()
        halvings = math.ceil(math.log2(min(height, width)))  # that lead to one row or column
        parts: list[nn.Module] = []
        for n, stage in enumerate(STAGES):
            for c_out in stage:
                parts += [layers.conv2d(channels, c_out, 3, padding=1, bias=True), layers.activation()]
                channels = c_out
            if n >= len(STAGES) - halvings:
                # before the activation, which is monotone: same result, a quarter of the work
                parts.insert(-1, nn.MaxPool2d(2, ceil_mode=True))
        self.features = nn.Sequential(*parts)
        self.width = channels
        he_normal_(self, fan="in")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.adaptive_avg_pool2d(self.features(x), 1).flatten(1)  # (B, 256)


def vgg9(layers: Layers, input_shape: tuple[int, ...]) -> nn.Module:
    """VGG-9; `vgg9` is the width-scaled configuration of factor 8 in FedDF's code."""
    return VGG(layers, *image_shape("vgg9", input_shape, at_least=8))
