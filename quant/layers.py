"""The layers of a precision, so that each architecture is written once; uniform access to their weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from quant.binary import BinaryActivation, BinaryConv2d, BinaryLinear
from quant.precision import FP32, Precision
from quant.quantized_weight import ActQuant, QuantizedWeight, QuantWeight
from quant.spectral import Conv2d

__all__ = [
    "ActQuant",
    "BinaryLayers",
    "FloatLayers",
    "IntLayers",
    "Layers",
    "QuantWeight",
    "QuantizedWeight",
    "act_quant",
    "effective_weight",
    "is_quantized",
    "layers_for",
    "quantized_weight",
    "weights_as_they_are",
]


class Layers(Protocol):
    """Factory of the layers that depend on the precision."""

    @property
    def precision(self) -> Precision:
        """The precision of these layers."""

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
    """Plain torch layers; large filters are applied in the frequency domain."""

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
        return Conv2d(c_in, c_out, kernel, stride=stride, padding=padding, groups=groups, bias=bias)

    def linear(self, d_in: int, d_out: int, *, bias: bool = True) -> nn.Module:
        return nn.Linear(d_in, d_out, bias=bias)

    def activation(self) -> nn.Module:
        return nn.ReLU()


@dataclass(frozen=True, slots=True)
class BinaryLayers:
    """1-bit weights; ReLU, or with 1-bit activations the straight-through sign."""

    precision: Precision

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
        return BinaryConv2d(c_in, c_out, kernel, stride=stride, padding=padding, groups=groups, bias=bias)

    def linear(self, d_in: int, d_out: int, *, bias: bool = True) -> nn.Module:
        return BinaryLinear(d_in, d_out, bias=bias)

    def activation(self) -> nn.Module:
        return nn.ReLU() if self.precision.act_bits is None else BinaryActivation()


@dataclass(frozen=True, slots=True)
class IntLayers:
    """8-, 4- or 2-bit weights and activations, through Brevitas; imported on first use."""

    precision: Precision

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
        from quant.brevitas_layers import IntConv2d

        bits = _bits(self.precision.weight_bits)
        return IntConv2d(c_in, c_out, kernel, bits=bits, stride=stride, padding=padding, groups=groups, bias=bias)

    def linear(self, d_in: int, d_out: int, *, bias: bool = True) -> nn.Module:
        from quant.brevitas_layers import IntLinear

        return IntLinear(d_in, d_out, bits=_bits(self.precision.weight_bits), bias=bias)

    def activation(self) -> nn.Module:
        from quant.brevitas_layers import IntReLU

        return IntReLU(bits=_bits(self.precision.act_bits))


def _bits(bits: int | None) -> int:
    assert bits is not None, "integer layers have bits"
    return bits


def layers_for(precision: Precision) -> Layers:
    """The layers of `precision`."""
    if not precision.quantized:
        return FloatLayers()
    return BinaryLayers(precision) if precision.weight_bits == 1 else IntLayers(precision)


def is_quantized(module: nn.Module) -> bool:
    """Whether `module` itself has a quantized weight (its children do not count)."""
    return isinstance(module, QuantizedWeight)


def quantized_weight(module: nn.Module) -> QuantWeight | None:
    """Levels, scale and mean that `module` computes with, or None for a float layer.

    A frozen weight has the levels it was frozen with; the result is None if it was frozen without levels or has been
    changed since.
    """
    if not isinstance(module, QuantizedWeight):
        return None
    if not module.weight_frozen:
        return module.quantize_weight()
    quant = module.frozen_quant
    return quant if quant is not None and bool((quant.dequantize() == module.weight).all()) else None


def effective_weight(module: nn.Module) -> Tensor:
    """The weight that `module` computes with: quantized where the layer is."""
    weight = module.effective_weight() if isinstance(module, QuantizedWeight) else module.weight
    assert isinstance(weight, Tensor), f"{type(module).__name__} has no weight"
    return weight


def act_quant(module: nn.Module) -> ActQuant | None:
    """How `module` quantizes its activations, or None if it does not."""
    if isinstance(module, BinaryActivation):
        return ActQuant(bits=1, scale=1.0, low=-1, high=1)
    params = getattr(module, "act_quant_params", None)
    return params() if params is not None else None


@contextmanager
def weights_as_they_are(model: nn.Module) -> Iterator[None]:
    """Compute with unquantized weight tensors: the full-precision form of a quantized model, except for activations."""
    latent = [m for m in model.modules() if isinstance(m, QuantizedWeight) and not m.weight_frozen]
    for module in latent:
        module.freeze_weight()
    try:
        yield
    finally:
        for module in latent:
            module.unfreeze_weight()
