"""Base of all layers with a quantized weight: its levels, and the switch that freezes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["ActQuant", "QuantWeight", "QuantizedWeight"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantWeight:
    """A quantized weight: value = mean + scale * level, per tensor or per output channel.

    It is `wire.tensors.Packed` in torch: same fields, same order of operations.
    """

    bits: int
    levels: Tensor  # int8, the weight's shape; {-1, 1} at 1 bit, else -(2**(b-1)-1) .. 2**(b-1)-1
    scale: Tensor  # float16 or float32, shape () or (c_out,)
    mean: Tensor | None = None  # the midpoint of the levels, like scale

    def dequantize(self) -> Tensor:
        """The weight that the layer computes with, float32, bit-exactly."""
        value = self._broadcast(self.scale) * self.levels.float()
        return value if self.mean is None else self._broadcast(self.mean) + value

    def _broadcast(self, t: Tensor) -> Tensor:
        return t.float().reshape(-1, *(1,) * (self.levels.ndim - 1)) if t.ndim else t.float()


@dataclass(frozen=True, slots=True, kw_only=True)
class ActQuant:
    """A quantized activation.

    bits > 1:  y = scale * clip(round_half_even(x / scale), low, high)      a ReLU, because low = 0
    bits = 1:  y = -1 where the sign bit of x is set, else 1                low = -1, high = 1, scale = 1
    """

    bits: int
    scale: float  # a float32 number
    low: int
    high: int
    zero_point: int = 0


class QuantizedWeight(ABC):
    """Mixin of the layers whose `weight` parameter is a latent: the layer computes with `effective_weight()`.

    Frozen, the weight tensor is used unquantized. A received update is loaded this way, because it is already
    quantized. `weight_frozen` and `frozen_quant` are plain attributes, not part of the state dict: the code that loads
    a state dict knows whether it has latent or quantized values.
    """

    weight: Tensor
    weight_bits: int
    weight_frozen: bool = False
    frozen_quant: QuantWeight | None = None  # the levels behind a frozen weight, so that it can be packed again

    @abstractmethod
    def quantize_weight(self) -> QuantWeight:
        """Levels, scale and mean of the latent weight, detached."""

    @abstractmethod
    def effective_weight(self) -> Tensor:
        """The weight that forward computes with; the gradient reaches the latent weight straight through."""

    def freeze_weight(self, quant: QuantWeight | None = None) -> None:
        """Use the weight unquantized from now on. With `quant`, first copy its values into the weight and keep it."""
        if quant is not None:
            with torch.no_grad():
                self.weight.copy_(quant.dequantize())
        self.weight_frozen, self.frozen_quant = True, quant

    def unfreeze_weight(self) -> None:
        """Treat the weight as a latent again."""
        self.weight_frozen, self.frozen_quant = False, None
