"""Shared by several architectures: checks of the input shape, norm layers, initial weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from torch import nn

from core.errors import ConfigError
from quant.layers import Layers

__all__ = ["Norm", "batch_norm", "group_norm", "he_normal_", "image_shape", "or_quantized", "sequence_length"]

Norm = Callable[[int], nn.Module]


def image_shape(arch: str, input_shape: tuple[int, ...], *, at_least: int) -> tuple[int, int, int]:
    """Channels, height and width of an image input that is large enough for `arch`."""
    if len(input_shape) != 3:
        raise ConfigError(f"{arch} takes images (channels, height, width), not an input of shape {input_shape}")
    c, h, w = input_shape
    if min(h, w) < at_least:
        raise ConfigError(f"{arch} needs images of at least {at_least}x{at_least}, got {h}x{w}; try cnn or mlp")
    return c, h, w


def sequence_length(arch: str, input_shape: tuple[int, ...]) -> int:
    """The length of an input of token ids."""
    if len(input_shape) != 1:
        raise ConfigError(f"{arch} takes token ids (length,), not an input of shape {input_shape}")
    return input_shape[0]


def batch_norm(channels: int) -> nn.Module:
    """BatchNorm: float in every precision."""
    return nn.BatchNorm2d(channels)


def group_norm(channels: int) -> nn.Module:
    """GroupNorm with 2 groups, as in FedDF's code; the tuned number of the paper is not published."""
    return nn.GroupNorm(2, channels)


def or_quantized(layers: Layers, activation: nn.Module) -> nn.Module:
    """`activation` if activations are float, the precision's own if they are quantized."""
    return activation if layers.precision.act_bits is None else layers.activation()


def he_normal_(module: nn.Module, *, fan: Literal["in", "out"] = "out") -> None:
    """Convolution weights ~ N(0, 2 / (k^2 c)), c = c_out or c_in by `fan`, their biases 0 (He et al. 2015).

    "out" is used by the ResNets' authors; "in" preserves the signal's variance without norm layers. Convolutions are
    recognized by their four-dimensional weight, in every precision.
    """
    for layer in module.modules():
        weight = getattr(layer, "weight", None)
        if not isinstance(weight, nn.Parameter) or weight.ndim != 4:
            continue
        c_out, c_in, height, width = weight.shape
        nn.init.normal_(weight, 0.0, math.sqrt(2.0 / (height * width * (c_out if fan == "out" else c_in))))
        bias = getattr(layer, "bias", None)
        if isinstance(bias, nn.Parameter):
            nn.init.zeros_(bias)
