"""A predictor in NumPy, trained by light devices. Imports no torch.

    logits = z W_q^T + bias

fp32          W_q = W
w1, w1a1      W_q = mu + s sign(W - mean(W)), mu and s float16 by row, dL/dW = dL/dW_q   as `quant/binary.py`
w8a8 … w2a2   W_q = W: the predictor is trained and sent as floats, and quantized where it is used

The results equal those of the torch layers up to float32 rounding, and a packed 1-bit weight has exactly the levels
used by forward.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.errors import ModelError
from quant.float16 import as_wire
from quant.levels import quantized, two_values
from quant.precision import Precision
from wire.tensors import Tensor
from wire.tensors.packed import Packed

__all__ = ["LightPredictor"]

Floats = NDArray[np.float32]
WEIGHT, BIAS = "predictor.weight", "predictor.bias"


@dataclass(slots=True)
class LightPredictor:
    """Latent weight (C, D) and bias (C,), float32, changed in place by training."""

    weight: Floats
    bias: Floats
    binary: bool = False

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], precision: Precision) -> LightPredictor:
        """From a published model's tensors; those of the extractor are ignored."""
        try:
            weight, bias = _floats(tensors[WEIGHT]), _floats(tensors[BIAS])
        except KeyError as error:
            raise ModelError(f"the model has no {error}: light mode knows linear predictors") from None
        if weight.ndim != 2 or bias.shape != weight.shape[:1]:
            raise ModelError(f"a predictor of {weight.shape} and {bias.shape}: light mode knows linear ones")
        return cls(weight, bias, binary=precision.weight_bits == 1)

    @property
    def params(self) -> list[Floats]:
        """The trained parameters."""
        return [self.weight, self.bias]

    def effective_weight(self) -> Floats:
        """W_q (C, D)."""
        if not self.binary:
            return self.weight
        mid, centred, scale = two_values(self.weight, (1,))
        return np.copysign(scale, centred) + mid

    def logits(self, z: Floats) -> Floats:
        """Logits (B, C) of latents (B, D)."""
        found: Floats = z @ self.effective_weight().T
        found += self.bias
        return found

    def gradients(self, z: Floats, of_logits: Floats) -> list[Floats]:
        """Gradients of `params`, from the gradient of the logits (B, C)."""
        return [of_logits.T @ z, of_logits.sum(0)]

    def pack(self, floats: str) -> dict[str, Tensor]:
        """The tensors of a predictor update; the bias is rounded in place to the sent values."""
        bias = as_wire(self.bias, floats)
        self.bias[...] = bias
        if not self.binary:
            weight = as_wire(self.weight, floats)
            self.weight[...] = weight
            return {WEIGHT: weight.copy(), BIAS: bias.copy()}
        return {WEIGHT: quantized(self.weight, 1, per_channel=True), BIAS: bias.copy()}


def _floats(value: Tensor) -> Floats:
    array = value.dequantize() if isinstance(value, Packed) else value
    return np.array(array, np.float32)
