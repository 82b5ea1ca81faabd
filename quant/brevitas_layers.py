"""8-, 4- and 2-bit layers through Brevitas; the only module that imports it, because importing it takes a second.

Weights: narrow symmetric integers with one float32 scale per output channel, `w_q = scale * level`, where the scale is
a statistic of the weight itself (it has no state):

    8 and 4 bit   scale = max|w| / (2^(b-1) - 1)
    2 bit         scale = 1.5 mean|w|, levels -1 0 1: for Gaussian weights the best step of three levels is
                  1.22 sigma = 1.53 mean|w|, while max|w| would round most weights to 0

Activations: unsigned integers, `y = scale * clip(round(relu(x) / scale), 0, 2^b - 1)`, with a learned scale that starts
from a constant. Brevitas' default is not used: it collects statistics for its first 300 training steps, counted in an
attribute that no state dict holds, and its state dict lacks the scale until the first step. A model that is averaged
and sent to devices must not depend on hidden counters.

Brevitas silently ignores unknown keywords. They are spelled only here, and the tests check the actual bit width of each
layer.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from brevitas import nn as qnn
from brevitas.proxy import ActQuantProxyFromInjector, WeightQuantProxyFromInjector
from brevitas.quant.scaled_int import Int8WeightPerChannelFloat, Uint8ActPerTensorFloatMaxInit
from torch import Tensor, nn

from quant.quantized_weight import ActQuant, QuantizedWeight, QuantWeight

__all__ = ["IntConv2d", "IntLinear", "IntReLU"]

#: Initial clipping bound of activations: about the optimum for a rectified unit Gaussian, the output of a normalization
#: layer, with some room for residual sums.
_FIRST_CLIP = {8: 6.0, 4: 4.0, 2: 2.0}


class _TernaryStep(nn.Module):
    """1.5 mean|w| over the dimension that Brevitas asks for."""

    def __init__(self, stats_reduce_dim: int | None = None) -> None:
        super().__init__()
        self.dim = stats_reduce_dim

    def forward(self, x: Tensor) -> Tensor:
        size = x.detach().abs()  # the scale's gradient would push an outlying weight the wrong way
        return 1.5 * (size.mean() if self.dim is None else size.mean(dim=self.dim))


class _Loads:
    """A proxy that loads a state dict like any other module.

    Brevitas' own proxy rebuilds the quantizer at every load, which costs milliseconds per layer, and leaves an
    optimizer with an activation scale that the layer no longer uses.
    """

    def _load_from_state_dict(self, *args: Any) -> None:
        nn.Module._load_from_state_dict(cast(nn.Module, self), *args)


class _WeightProxy(_Loads, WeightQuantProxyFromInjector):  # type: ignore[misc, unused-ignore]
    pass


class _ActProxy(_Loads, ActQuantProxyFromInjector):  # type: ignore[misc, unused-ignore]
    pass


class _IntWeightQuant(Int8WeightPerChannelFloat):  # type: ignore[misc, unused-ignore]
    proxy_class = _WeightProxy


class _TernaryWeightQuant(_IntWeightQuant):
    scaling_stats_impl = _TernaryStep


class _ActQuant(Uint8ActPerTensorFloatMaxInit):  # type: ignore[misc, unused-ignore]
    proxy_class = _ActProxy
    scaling_min_val = 2.0**-10  # a learned scale may cross 0


def _weight_keywords(bits: int) -> dict[str, Any]:
    return {"weight_quant": _TernaryWeightQuant if bits == 2 else _IntWeightQuant, "weight_bit_width": bits}


class _IntWeight(QuantizedWeight):
    """The common switch, on top of Brevitas' own."""

    weight_quant: Any

    def _plain(self, bits: int) -> None:
        self.weight_bits = bits
        self.weight_quant.skip_create_quant_tensor = True  # plain tensors: nothing here reads Brevitas' own

    def effective_weight(self) -> Tensor:
        return cast(Tensor, self.weight_quant(self.weight))

    def quantize_weight(self) -> QuantWeight:
        with torch.no_grad():
            value, scale, _, bits = self.weight_quant.tensor_quant(self.weight)
        levels = torch.round(value / scale).to(torch.int8)
        return QuantWeight(bits=int(bits), levels=levels, scale=scale.detach().reshape(-1).clone())

    def freeze_weight(self, quant: QuantWeight | None = None) -> None:
        super().freeze_weight(quant)
        self.weight_quant.disable_quant = True

    def unfreeze_weight(self) -> None:
        super().unfreeze_weight()
        self.weight_quant.disable_quant = False


class IntConv2d(_IntWeight, qnn.QuantConv2d):  # type: ignore[misc, unused-ignore]
    """Convolution with `bits`-bit weights, one scale per output channel; the bias stays float."""

    def __init__(
        self,
        c_in: int,
        c_out: int,
        kernel: int,
        *,
        bits: int,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        super().__init__(
            c_in,
            c_out,
            kernel,
            stride=stride,
            padding=padding,
            groups=groups,
            bias=bias,
            **_weight_keywords(bits),
        )
        self._plain(bits)


class IntLinear(_IntWeight, qnn.QuantLinear):  # type: ignore[misc, unused-ignore]
    """Linear layer with `bits`-bit weights, one scale per output; the bias stays float."""

    def __init__(self, d_in: int, d_out: int, *, bits: int, bias: bool = True) -> None:
        super().__init__(d_in, d_out, bias=bias, **_weight_keywords(bits))
        self._plain(bits)


class IntReLU(qnn.QuantReLU):  # type: ignore[misc, unused-ignore]
    """ReLU with `bits`-bit output and a learned scale, which is in the state dict."""

    def __init__(self, *, bits: int) -> None:
        super().__init__(act_quant=_ActQuant, max_val=_FIRST_CLIP[bits], bit_width=bits)
        self.act_quant.skip_create_quant_tensor = True

    def act_quant_params(self) -> ActQuant:
        """Bits, scale and range, as forward uses them."""
        quantizer = self.act_quant.fused_activation_quant_proxy.tensor_quant
        _, scale, zero_point, bits = quantizer(torch.zeros(1))
        top = 2 ** int(bits) - 1
        return ActQuant(bits=int(bits), scale=float(scale.detach()), low=0, high=top, zero_point=int(zero_point))
