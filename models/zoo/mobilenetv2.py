"""MobileNetV2 (Sandler et al. 2018, arXiv:1801.04381) for 32x32 images: stem and second stage of stride 1, not 2.

    block(x) = project(depthwise(expand(x))) [+ x where stride and channels stay]
    expand: 1x1 to t times the channels, norm, ReLU6;  depthwise: 3x3, norm, ReLU6;  project: 1x1, norm, no activation

Bottlenecks are linear (section 3.2), so a quantized prototype's expansions see float activations.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from models.zoo.common import batch_norm, he_normal_, image_shape, or_quantized
from quant.layers import Layers

__all__ = ["Bottleneck", "MobileNetV2", "mobilenetv2"]

#: Table 2 of the paper: expansion t, channels c, repeats n, stride s of the first; s of the second row is 2 there.
STAGES = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
STEM, LAST = 32, 1280


def _conv(layers: Layers, c_in: int, c_out: int, kernel: int, *, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = layers.conv2d(c_in, c_out, kernel, stride=stride, padding=kernel // 2, groups=groups)
    return nn.Sequential(conv, batch_norm(c_out), or_quantized(layers, nn.ReLU6()))


class Bottleneck(nn.Module):
    """An inverted residual block."""

    def __init__(self, layers: Layers, c_in: int, c_out: int, expansion: int, stride: int) -> None:
        super().__init__()
        hidden = c_in * expansion
        self.expand = nn.Identity() if expansion == 1 else _conv(layers, c_in, hidden, 1)
        self.depthwise = _conv(layers, hidden, hidden, 3, stride=stride, groups=hidden)
        self.project = nn.Sequential(layers.conv2d(hidden, c_out, 1), batch_norm(c_out))
        self.residual = stride == 1 and c_in == c_out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.project(self.depthwise(self.expand(x)))
        return x + y if self.residual else y


class MobileNetV2(nn.Module):
    """Stem, seven stages of bottlenecks, a last 1x1 convolution, average."""

    def __init__(self, layers: Layers, channels: int) -> None:
        super().__init__()
        self.stem = _conv(layers, channels, STEM, 3)
        blocks: list[nn.Module] = []
        c_in = STEM
        for expansion, c_out, repeats, stride in STAGES:
            for n in range(repeats):
                blocks.append(Bottleneck(layers, c_in, c_out, expansion, stride if n == 0 else 1))
                c_in = c_out
        self.blocks = nn.Sequential(*blocks)
        self.last = _conv(layers, c_in, LAST, 1)
        self.width = LAST
        he_normal_(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.last(self.blocks(self.stem(x)))  # (B, 1280, H/8, W/8)
        return F.adaptive_avg_pool2d(x, 1).flatten(1)  # (B, 1280)


def mobilenetv2(layers: Layers, input_shape: tuple[int, ...]) -> nn.Module:
    """MobileNetV2 of width 1; with the predictor, 2,236,682 parameters at CIFAR-10."""
    channels, _, _ = image_shape("mobilenetv2", input_shape, at_least=8)
    return MobileNetV2(layers, channels)
