"""Multilayer perceptrons; an input of any shape is flattened.

mlp          784-200-200, ReLU: the "2NN" of McMahan et al. 2017, section 3, arXiv:1602.05629
fedrad_mlp   784-512-256, LeakyReLU(0.1), dropout 0.5: Sturluson et al. 2021 (FedRAD)
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

from models.zoo.common import or_quantized
from quant.layers import Layers

__all__ = ["MLP", "fedrad_mlp", "mlp"]


class MLP(nn.Module):
    """Flatten, then twice linear, activation, dropout; the latent is the second hidden layer."""

    def __init__(
        self,
        layers: Layers,
        inputs: int,
        hidden: tuple[int, int],
        *,
        activation: Callable[[], nn.Module],
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.fc1 = layers.linear(inputs, hidden[0])
        self.act1 = activation()
        self.fc2 = layers.linear(hidden[0], hidden[1])
        self.act2 = activation()
        self.dropout = nn.Dropout(dropout)
        self.width = hidden[1]

    def steps(self) -> tuple[nn.Module, ...]:
        """What `forward` applies, one after another, to flat inputs."""
        return self.fc1, self.act1, self.dropout, self.fc2, self.act2, self.dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.dropout(self.act1(self.fc1(x.flatten(1))))
        z: torch.Tensor = self.dropout(self.act2(self.fc2(x)))  # (B, width)
        return z


def mlp(layers: Layers, input_shape: tuple[int, ...], hidden: int = 200) -> nn.Module:
    """inputs-200-200 with ReLU; with the predictor, 199,210 parameters at MNIST."""
    return MLP(layers, math.prod(input_shape), (hidden, hidden), activation=layers.activation)


def fedrad_mlp(layers: Layers, input_shape: tuple[int, ...]) -> nn.Module:
    """inputs-512-256 with LeakyReLU(0.1), or the precision's quantized activation; 535,818 parameters at MNIST."""
    return MLP(
        layers,
        math.prod(input_shape),
        (512, 256),
        activation=lambda: or_quantized(layers, nn.LeakyReLU(0.1)),
        dropout=0.5,
    )
