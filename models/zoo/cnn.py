"""The small CNN of FedGen's authors' code (Zhu et al. 2021, arXiv:2105.10056): 60 times smaller than McMahan's."""

from __future__ import annotations

import torch
from torch import nn

from models.zoo.common import batch_norm, image_shape
from quant.layers import Layers

__all__ = ["FedGenCNN", "cnn"]


class FedGenCNN(nn.Module):
    """conv 6, norm, act, conv 16, norm, act, both 3x3 with stride 2; flatten; linear to 32 without activation."""

    def __init__(self, layers: Layers, channels: int, height: int, width: int) -> None:
        super().__init__()
        self.conv1 = layers.conv2d(channels, 6, 3, stride=2, padding=1, bias=True)
        self.norm1 = batch_norm(6)
        self.act1 = layers.activation()
        self.conv2 = layers.conv2d(6, 16, 3, stride=2, padding=1, bias=True)
        self.norm2 = batch_norm(16)
        self.act2 = layers.activation()
        # each stride-2 convolution rounds up: 28 -> 14 -> 7
        self.fc = layers.linear(16 * -(-height // 4) * -(-width // 4), 32)
        self.width = 32

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act1(self.norm1(self.conv1(x)))
        x = self.act2(self.norm2(self.conv2(x)))  # (B, 16, H/4, W/4)
        z: torch.Tensor = self.fc(x.flatten(1))  # (B, 32)
        return z


def cnn(layers: Layers, input_shape: tuple[int, ...]) -> nn.Module:
    """The FedGen CNN; with the predictor, 26,434 parameters at MNIST."""
    return FedGenCNN(layers, *image_shape("cnn", input_shape, at_least=8))
