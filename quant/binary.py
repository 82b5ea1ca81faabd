"""1-bit layers: the straight-through sign, and convolution and linear layers with binary weights.

They are deliberately minimal: a step costs about as much as with the float layer (benchmarks/binary_step.py), they run
under `torch.func` (`grad`, `vmap`, `functional_call`), and the latent weight is changed by the optimizer only. Where
the definitions coincide with Brevitas' 1-bit layers, the results are equal (tests/quant/test_brevitas_parity.py).
Differences:

- Brevitas clamps the latent weight in place to its scale at every forward; ours is not changed.
- Brevitas' scale is a constant (0.1 unless set) and multiplies the weight's gradient; ours is the filter's own, and the
  gradient is the identity.
- Brevitas does not centre the weight; ours keeps the filter's mean.
- At |x| = 1 exactly, Brevitas' activation passes the gradient; ours does not. At x = -0.0 Brevitas gives 1; ours -1.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from quant.quantized_weight import QuantizedWeight, QuantWeight
from quant.spectral import convolve

__all__ = ["BinaryActivation", "BinaryConv2d", "BinaryLinear", "binarize", "sign_ste"]

# A scale below float16's smallest normal number would lose precision, or underflow to 0 and lose the signs.
_HALF_MIN, _HALF_MAX = 2.0**-14, 65504.0


class _SignSTE(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.copysign(torch.ones((), dtype=x.dtype, device=x.device), x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return torch.ops.aten.hardtanh_backward(grad, x, -1.0, 1.0)  # type: ignore[no-any-return]


def sign_ste(x: Tensor) -> Tensor:
    """Sign of x with the clipped straight-through gradient (Hubara et al. 2016, arXiv:1602.02830, equation 4).

    y = 1 if the sign bit of x is clear, else -1;   dL/dx = dL/dy if |x| < 1, else 0

    The sign of 0.0 is 1, of -0.0 it is -1. copysign and hardtanh_backward are one pass over the data each.
    """
    return _SignSTE.apply(x)  # type: ignore[no-any-return]


class BinaryActivation(nn.Module):
    """The straight-through sign as a layer; put a normalization in front of it, so that |x| < 1 is common."""

    def forward(self, x: Tensor) -> Tensor:
        return sign_ste(x)


def _two_values(w: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Midpoint mu and scale s over `dims`, rounded to float16, and the centred weight whose signs are the levels."""
    mean = w.mean(dims, keepdim=True)
    centred = w - mean.clamp(-_HALF_MAX, _HALF_MAX).half()
    tilt = torch.copysign(torch.ones((), dtype=w.dtype, device=w.device), centred).mean(dims, keepdim=True)
    n = math.prod(w.shape[d] for d in dims)
    rms = torch.linalg.vector_norm(centred, 2, dims, keepdim=True).mul_(n**-0.5)
    scale = (rms / (1 - tilt.square()).clamp_min(1 / n).sqrt()).clamp(_HALF_MIN, _HALF_MAX).half().to(w.dtype)
    return (mean - scale * tilt).clamp(-_HALF_MAX, _HALF_MAX).half().to(w.dtype), centred, scale


class _Binarize(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(w: Tensor, dims: tuple[int, ...]) -> Tensor:
        mid, centred, scale = _two_values(w, dims)
        return torch.copysign(scale, centred).add_(mid)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass  # the gradient is the identity

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


def binarize(w: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Two-valued weight per group, with the mean and the variance of the latent weight.

    w_q = mu + s * sign(c),   c = w - mean(w),   m = mean(sign(c)),   dL/dw = dL/dw_q
    s   = sqrt(mean(c^2) / (1 - m^2)),   mu = mean(w) - s m

    The means are taken over `dims`: all but the first, so per filter of a convolution and per row of a matrix. A matrix
    has one mean and one scale in FedDF's 1-bit experiment (Lin et al. 2020, arXiv:2006.07242, Table 4). With one per
    row 1-bit CNNs are 4 points better on MNIST at alpha 0.1, and equal on Fashion-MNIST (docs/results/defaults.md).

    The authors use mu = mean(w) and s = sqrt(mean(c^2)), which is the same if the signs are balanced (m = 0). In a
    filter of nine weights they never are: the mean of their w_q then differs from that of w, and quantizing again
    changes it again. A published model is the mean of quantized models, and a board quantizes it again: with the
    authors' rule its BatchNorm statistics did not match the filters that it computed with (docs/architecture.md has the
    figures).

    The authors keep the residual w - w_q and add it back before the next quantization (error feedback); residual + w_q
    is the latent weight, so this equals the identity gradient without a clip mask. Here sign(0) is 1, and mu and s are
    rounded to float16, so that the wire carries w_q exactly.
    """
    return _Binarize.apply(w, dims)  # type: ignore[no-any-return]


class _BinaryWeight(QuantizedWeight):
    """Binary weight with its groups; mixed into a torch layer."""

    weight_bits = 1
    group_dims: tuple[int, ...]  # the dimensions that share a midpoint and a scale

    def effective_weight(self) -> Tensor:
        return self.weight if self.weight_frozen else binarize(self.weight, self.group_dims)

    def quantize_weight(self) -> QuantWeight:
        w = self.weight.detach()
        mid, centred, scale = _two_values(w, self.group_dims)
        levels = torch.copysign(torch.ones((), dtype=w.dtype, device=w.device), centred).to(torch.int8)
        shape = () if 0 in self.group_dims else (w.shape[0],)
        return QuantWeight(bits=1, levels=levels, scale=scale.half().reshape(shape), mean=mid.half().reshape(shape))


class BinaryConv2d(_BinaryWeight, nn.Conv2d):
    """Convolution with a midpoint and a scale per output filter; the bias stays float."""

    group_dims = (1, 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return convolve(self, x, self.effective_weight())


class BinaryLinear(_BinaryWeight, nn.Linear):
    """Linear layer with a midpoint and a scale per row; the bias stays float."""

    group_dims = (1,)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.effective_weight(), self.bias)
