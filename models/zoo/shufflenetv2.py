"""ShuffleNetV2 (Ma et al. 2018, arXiv:1807.11164) for 32x32 images: stem of stride 1 and no pooling after it.

A unit, and a unit that halves the map and widens it (Figure 3 c and d; shuffle is over 2 groups):

    a, b = split(x);  y = shuffle(a, pw(dw(pw(b))))          pw: 1x1 convolution, norm, act
    y = shuffle(pw(dw_2(x)), pw(dw_2(pw(x))))                dw: 3x3 depthwise convolution, norm, no act

The depthwise outputs are not activated, so a quantized prototype's second pw sees float activations.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from core.errors import ConfigError
from models.zoo.common import batch_norm, he_normal_, image_shape
from quant.layers import Layers

__all__ = ["ShuffleNetV2", "Unit", "shufflenetv2"]

#: Table 5 of the paper: channels of stages 2, 3, 4 and of the last convolution, by size.
CHANNELS = {
    0.5: (48, 96, 192, 1024),
    1.0: (116, 232, 464, 1024),
    1.5: (176, 352, 704, 1024),
    2.0: (244, 488, 976, 2048),
}
REPEATS = (4, 8, 4)
STEM = 24


def shuffle(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Channels a0 b0 a1 b1 ...: concatenation followed by the channel shuffle of 2 groups, in one step."""
    return torch.stack((a, b), 2).flatten(1, 2)


def _pointwise(layers: Layers, c_in: int, c_out: int) -> nn.Sequential:
    return nn.Sequential(layers.conv2d(c_in, c_out, 1), batch_norm(c_out), layers.activation())


def _depthwise(layers: Layers, channels: int, stride: int) -> nn.Sequential:
    conv = layers.conv2d(channels, channels, 3, stride=stride, padding=1, groups=channels)
    return nn.Sequential(conv, batch_norm(channels))


class Unit(nn.Module):
    """One unit; with `down` it halves the map and both branches see all channels."""

    def __init__(self, layers: Layers, c_in: int, c_out: int, *, down: bool) -> None:
        super().__init__()
        half = c_out // 2
        stride = 2 if down else 1
        self.down = down
        self.left: nn.Module = nn.Identity()
        if down:
            self.left = nn.Sequential(_depthwise(layers, c_in, stride), _pointwise(layers, c_in, half))
        self.right = nn.Sequential(
            _pointwise(layers, c_in if down else half, half),
            _depthwise(layers, half, stride),
            _pointwise(layers, half, half),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = (x, x) if self.down else x.chunk(2, 1)
        return shuffle(self.left(a), self.right(b))


class ShuffleNetV2(nn.Module):
    """Stem, three stages, a last 1x1 convolution, average."""

    def __init__(self, layers: Layers, channels: int, widths: tuple[int, int, int, int]) -> None:
        super().__init__()
        self.stem = nn.Sequential(layers.conv2d(channels, STEM, 3, padding=1), batch_norm(STEM), layers.activation())
        units: list[nn.Module] = []
        c_in = STEM
        for c_out, repeat in zip(widths[:3], REPEATS, strict=True):
            units.append(Unit(layers, c_in, c_out, down=True))
            units += [Unit(layers, c_out, c_out, down=False) for _ in range(repeat - 1)]
            c_in = c_out
        self.units = nn.Sequential(*units)
        self.last = _pointwise(layers, c_in, widths[3])
        self.width = widths[3]
        he_normal_(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.last(self.units(self.stem(x)))  # (B, 1024, H/8, W/8)
        return F.adaptive_avg_pool2d(x, 1).flatten(1)  # (B, 1024)


def shufflenetv2(layers: Layers, input_shape: tuple[int, ...], size: float = 0.5) -> nn.Module:
    """ShuffleNetV2 at `size` 0.5, 1.0, 1.5 or 2.0 times the paper's width."""
    channels, _, _ = image_shape("shufflenetv2", input_shape, at_least=8)
    if size not in CHANNELS:
        raise ConfigError(f"shufflenetv2: no size {size}; the paper has {' '.join(map(str, CHANNELS))}")
    return ShuffleNetV2(layers, channels, CHANNELS[size])
