"""ResNets of 6n+2 layers for small images (He et al. 2016, arXiv:1512.03385, section 4.2), as FedDF trains them.

conv 3x3 16, norm, act; three stages of n blocks with 16, 32, 64 channels and strides 1, 2, 2; average pooling.

    block(x) = act(norm(conv3x3(act(norm(conv3x3(x))))) + shortcut(x))

The shortcut is the identity or, if the shape changes, norm(conv1x1(x)). Convolutions have no bias. `-gn` replaces
every BatchNorm by a GroupNorm of 2 groups.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from models.zoo.common import Norm, batch_norm, group_norm, he_normal_, image_shape
from quant.layers import Layers

__all__ = ["Block", "ResNet", "resnet8", "resnet8_gn", "resnet20", "resnet20_gn", "resnet32", "resnet32_gn"]


class Block(nn.Module):
    """Two 3x3 convolutions with a shortcut."""

    def __init__(self, layers: Layers, c_in: int, c_out: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = layers.conv2d(c_in, c_out, 3, stride=stride, padding=1)
        self.norm1 = norm(c_out)
        self.act1 = layers.activation()
        self.conv2 = layers.conv2d(c_out, c_out, 3, padding=1)
        self.norm2 = norm(c_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or c_in != c_out:
            self.shortcut = nn.Sequential(layers.conv2d(c_in, c_out, 1, stride=stride), norm(c_out))
        self.act2 = layers.activation()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.act1(self.norm1(self.conv1(x)))
        out: torch.Tensor = self.act2(self.norm2(self.conv2(y)) + self.shortcut(x))
        return out


class ResNet(nn.Module):
    """The stem, three stages of `blocks` blocks each, and the average over the remaining positions."""

    def __init__(self, layers: Layers, channels: int, blocks: int, norm: Norm, widen: int) -> None:
        super().__init__()
        width = 16 * widen
        self.conv1 = layers.conv2d(channels, width, 3, padding=1)
        self.norm1 = norm(width)
        self.act1 = layers.activation()
        self.stage1 = _stage(layers, width, width, 1, blocks, norm)
        self.stage2 = _stage(layers, width, 2 * width, 2, blocks, norm)
        self.stage3 = _stage(layers, 2 * width, 4 * width, 2, blocks, norm)
        self.width = 4 * width
        he_normal_(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act1(self.norm1(self.conv1(x)))
        x = self.stage3(self.stage2(self.stage1(x)))  # (B, 64, H/4, W/4)
        return F.adaptive_avg_pool2d(x, 1).flatten(1)  # (B, 64)


def _stage(layers: Layers, c_in: int, c_out: int, stride: int, blocks: int, norm: Norm) -> nn.Sequential:
    first = Block(layers, c_in, c_out, stride, norm)
    return nn.Sequential(first, *(Block(layers, c_out, c_out, 1, norm) for _ in range(blocks - 1)))


def _resnet(depth: int, layers: Layers, input_shape: tuple[int, ...], norm: Norm, widen: int) -> nn.Module:
    channels, _, _ = image_shape(f"resnet{depth}", input_shape, at_least=4)
    return ResNet(layers, channels, (depth - 2) // 6, norm, widen)


def resnet8(layers: Layers, input_shape: tuple[int, ...], widen: int = 1) -> nn.Module:
    """ResNet-8; with the predictor, 78,042 parameters at CIFAR-10. FedDF widens it 4 times for ImageNet-32."""
    return _resnet(8, layers, input_shape, batch_norm, widen)


def resnet8_gn(layers: Layers, input_shape: tuple[int, ...], widen: int = 1) -> nn.Module:
    """ResNet-8 with GroupNorm."""
    return _resnet(8, layers, input_shape, group_norm, widen)


def resnet20(layers: Layers, input_shape: tuple[int, ...], widen: int = 1) -> nn.Module:
    """ResNet-20; with the predictor, 272,474 parameters at CIFAR-10."""
    return _resnet(20, layers, input_shape, batch_norm, widen)


def resnet20_gn(layers: Layers, input_shape: tuple[int, ...], widen: int = 1) -> nn.Module:
    """ResNet-20 with GroupNorm."""
    return _resnet(20, layers, input_shape, group_norm, widen)


def resnet32(layers: Layers, input_shape: tuple[int, ...], widen: int = 1) -> nn.Module:
    """ResNet-32; with the predictor, 466,906 parameters at CIFAR-10."""
    return _resnet(32, layers, input_shape, batch_norm, widen)


def resnet32_gn(layers: Layers, input_shape: tuple[int, ...], widen: int = 1) -> nn.Module:
    """ResNet-32 with GroupNorm."""
    return _resnet(32, layers, input_shape, group_norm, widen)
