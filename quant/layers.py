"""The layers of a precision, so that each architecture is written once."""

from __future__ import annotations

from typing import Protocol

from torch import nn

from quant.precision import FP32, Precision

__all__ = ["FloatLayers", "Layers", "layers_for"]


class Layers(Protocol):
    """What an architecture asks for when it needs a layer that a precision may change."""

    @property
    def precision(self) -> Precision:
        """The precision that these layers have."""

    def conv2d(
        self,
        c_in: int,
        c_out: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        bias: bool = False,
    ) -> nn.Module:
        """A convolution; parameters `weight` and, with `bias`, `bias`."""

    def linear(self, d_in: int, d_out: int, *, bias: bool = True) -> nn.Module:
        """A linear layer; parameters `weight` and, with `bias`, `bias`."""

    def activation(self) -> nn.Module:
        """The non-linearity between layers."""


class FloatLayers:
    """Plain torch layers."""

    precision = FP32

    def conv2d(
        self,
        c_in: int,
        c_out: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        bias: bool = False,
    ) -> nn.Module:
        return nn.Conv2d(c_in, c_out, kernel, stride=stride, padding=padding, groups=groups, bias=bias)

    def linear(self, d_in: int, d_out: int, *, bias: bool = True) -> nn.Module:
        return nn.Linear(d_in, d_out, bias=bias)

    def activation(self) -> nn.Module:
        return nn.ReLU()


def layers_for(precision: Precision) -> Layers:
    """The layers of `precision`."""
    return FloatLayers()
