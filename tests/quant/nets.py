"""A small network in any precision, for the tests of layers and packing."""

from __future__ import annotations

import torch
from torch import nn

from quant.layers import layers_for
from quant.precision import Precision

__all__ = ["small_net"]


def small_net(precision: Precision, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = layers_for(precision)
    return nn.Sequential(
        layers.conv2d(2, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        layers.activation(),
        layers.conv2d(6, 6, 3, stride=2, groups=6, bias=True),
        nn.BatchNorm2d(6),
        layers.activation(),
        nn.Flatten(),
        layers.linear(24, 3),
    )
