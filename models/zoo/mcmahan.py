"""The CNN of McMahan et al. 2017 (arXiv:1602.05629, section 3): 1,663,370 parameters at MNIST."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from models.zoo.common import image_shape
from quant.layers import Layers

__all__ = ["McMahanCNN", "mcmahan_cnn"]


class McMahanCNN(nn.Module):
    """conv 5x5 32, pool, conv 5x5 64, pool, linear 512.

    The pooling comes before the activation: both orders give the same result, because all our activations are monotone,
    and this one computes a quarter of the activations.
    """

    def __init__(self, layers: Layers, channels: int, height: int, width: int) -> None:
        super().__init__()
        self.conv1 = layers.conv2d(channels, 32, 5, padding=2, bias=True)
        self.act1 = layers.activation()
        self.conv2 = layers.conv2d(32, 64, 5, padding=2, bias=True)
        self.act2 = layers.activation()
        self.fc = layers.linear(64 * (height // 4) * (width // 4), 512)
        self.act3 = layers.activation()
        self.width = 512

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act1(F.max_pool2d(self.conv1(x), 2))
        x = self.act2(F.max_pool2d(self.conv2(x), 2))  # (B, 64, H/4, W/4)
        z: torch.Tensor = self.act3(self.fc(x.flatten(1)))  # (B, 512)
        return z


def mcmahan_cnn(layers: Layers, input_shape: tuple[int, ...]) -> nn.Module:
    """McMahan's CNN, with zero padding so that 28x28 shrinks to 14x14 and 7x7."""
    return McMahanCNN(layers, *image_shape("mcmahan_cnn", input_shape, at_least=4))
