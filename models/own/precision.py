"""Replaces the layers of an own network by those of a precision, with their weights.

`nn.Linear` and `nn.Conv2d` become the precision's layers; where activations are quantized, `nn.ReLU` becomes the
precision's activation. Norm layers and embeddings stay float, as in the zoo. Any other layer with weights of its own,
or an activation that cannot be quantized, is refused by its name: its precision would not be what the prototype says.
"""

from __future__ import annotations

import torch
from torch import nn

from core.errors import ModelError
from models.spec import PrototypeSpec
from quant.layers import Layers
from quant.spectral import Conv2d

__all__ = ["with_precision"]

FLOAT = (
    nn.Embedding,
    nn.GroupNorm,
    nn.LayerNorm,
    nn.modules.batchnorm._NormBase,
)
OTHER_ACTIVATIONS = (nn.GELU, nn.SiLU, nn.LeakyReLU, nn.ELU, nn.Tanh, nn.Sigmoid, nn.PReLU, nn.Hardswish, nn.ReLU6)
CONV = (nn.Conv2d, Conv2d)


def with_precision(module: nn.Module, layers: Layers, spec: PrototypeSpec, *, acts: bool = True) -> nn.Module:
    """`module` with its layers replaced, in place, or what replaces it.

    At full precision only convolutions change: large filters are applied in the frequency domain. `acts`: there must be
    an activation to replace, if activations are quantized.
    """
    made: dict[nn.Module, nn.Module] = {}
    relus = 0
    for name, child in list(module.named_modules()):
        new = _replaced(name, child, layers, spec)
        relus += type(child) is nn.ReLU
        if new is not None:
            made[child] = new
    if acts and layers.precision.act_bits is not None and not relus and _has_layers(module):
        raise ModelError(
            f"{spec}: quantizes activations, but the network has no nn.ReLU to replace; use nn.ReLU instead of F.relu, "
            "or quantize weights alone, as w1"
        )
    if module in made:
        return made[module]
    for parent in list(module.modules()):
        for name, child in list(parent._modules.items()):  # named_children() leaves out what comes again
            if child is not None and child in made:
                setattr(parent, name, made[child])
    return module


def _has_layers(module: nn.Module) -> bool:
    return any(type(child) in (nn.Linear, *CONV) for child in module.modules()) and len(list(module.modules())) > 1


def _replaced(name: str, layer: nn.Module, layers: Layers, spec: PrototypeSpec) -> nn.Module | None:
    quantized, act_bits = layers.precision.quantized, layers.precision.act_bits
    if type(layer) is nn.Conv2d and not quantized:
        return _as_ours(layer)
    if not quantized:
        return None
    if type(layer) is nn.Linear:
        return _copied(layers.linear(layer.in_features, layer.out_features, bias=layer.bias is not None), layer)
    if type(layer) in CONV:
        assert isinstance(layer, nn.Conv2d)
        return _convolution(name, layer, layers, spec)
    if act_bits is not None and type(layer) is nn.ReLU:
        return layers.activation()
    if act_bits is not None and isinstance(layer, OTHER_ACTIVATIONS):
        raise _refusal(spec, name, layer, "only nn.ReLU can be quantized")
    own = [param for param in layer.parameters(recurse=False) if param.ndim > 1]
    if own and not isinstance(layer, FLOAT):
        raise _refusal(spec, name, layer, "only nn.Linear and nn.Conv2d can be quantized")
    return None


def _as_ours(layer: nn.Conv2d) -> nn.Module:
    """The same layer, which applies large filters in the frequency domain: the same tensors, under the same names."""
    layer.__class__ = Conv2d
    return layer


def _convolution(name: str, layer: nn.Conv2d, layers: Layers, spec: PrototypeSpec) -> nn.Module:
    square = all(
        isinstance(pair, tuple) and len(set(pair)) == 1 for pair in (layer.kernel_size, layer.stride, layer.padding)
    )
    if not square or layer.dilation != (1, 1) or layer.padding_mode != "zeros":
        raise _refusal(spec, name, layer, "quantized ones are square, without dilation, padded with zeros by a number")
    assert not isinstance(layer.padding, str)
    new = layers.conv2d(
        layer.in_channels,
        layer.out_channels,
        layer.kernel_size[0],
        stride=layer.stride[0],
        padding=layer.padding[0],
        groups=layer.groups,
        bias=layer.bias is not None,
    )
    return _copied(new, layer)


def _copied(new: nn.Module, old: nn.Linear | nn.Conv2d) -> nn.Module:
    """`new` with the parameters of `old`."""
    own = dict(new.named_parameters())
    with torch.no_grad():
        own["weight"].copy_(old.weight)
        if old.bias is not None:
            own["bias"].copy_(old.bias)
    return new


def _refusal(spec: PrototypeSpec, name: str, layer: nn.Module, why: str) -> ModelError:
    return ModelError(
        f"{spec}: layer {name or 'itself'!r} is a {type(layer).__name__}: {why}; change it, or give {spec.arch}:fp32"
    )
