"""A copy of a model in plain torch operations, for an exporter that supports neither our layers nor Brevitas'."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.errors import ModelError
from quant.layers import ActQuant, act_quant, effective_weight, is_quantized, quantized_weight
from quant.spectral import Conv2d
from wire.tensors import Packed

__all__ = ["WithSteps", "freeze", "packed_weights"]


class _Step(nn.Module):
    """A quantized activation; while `seen` is a list, the levels that it computes are appended there."""

    seen: list[Tensor] | None = None

    def _note(self, levels: Tensor) -> Tensor:
        if self.seen is not None:
            self.seen.append(levels)
        return levels


class _Sign(_Step):
    """1, or -1 where the sign bit is set: 1/x tells -0.0 from 0.0, which no comparison of x does."""

    def forward(self, x: Tensor) -> Tensor:
        return self._note(torch.where(torch.reciprocal(x) >= 0.0, 1.0, -1.0))


class _QuantReLU(_Step):
    """y = s * clip(round(x / s), low, high),   s = max(|v| / high, s_min).

    v is the learned scale as the state dict has it, under the same name: it stays a weight that can be read and
    replaced. s_min is the layer's own floor.
    """

    def __init__(self, layer: nn.Module, quant: ActQuant) -> None:
        super().__init__()
        ((self.path, value),) = layer.named_parameters()
        *parents, leaf = self.path.split(".")
        holder: nn.Module = self
        for name in parents:
            holder.add_module(name, nn.Module())
            holder = holder.get_submodule(name)
        holder.register_parameter(leaf, nn.Parameter(value.detach().cpu().clone()))
        self.low, self.high = float(quant.low), float(quant.high)
        self.floor = _floor(layer, quant.bits)
        if float(self.scale().detach()) != quant.scale:
            raise ModelError(f"activation scale is {quant.scale}, its formula gives {float(self.scale().detach())}")

    def scale(self) -> Tensor:
        # hardtanh, because the exporter writes it as one Clip and clamp as two casts and a Clip
        return F.hardtanh(self.get_parameter(self.path).abs() / self.high, self.floor, torch.finfo(torch.float32).max)

    def forward(self, x: Tensor) -> Tensor:
        scale = self.scale()
        return self._note(F.hardtanh(torch.round(x / scale), self.low, self.high)) * scale


_FLOORS: dict[tuple[type[nn.Module], int], float] = {}


def _floor(layer: nn.Module, bits: int) -> float:
    """The minimum scale of this kind of layer: read from a copy whose learned scale is 0."""
    key = (type(layer), bits)
    if key not in _FLOORS:
        asked = copy.deepcopy(layer)
        with torch.no_grad():
            next(asked.parameters()).zero_()
        quant = act_quant(asked)
        assert quant is not None, "a copy of a quantized activation is one"
        _FLOORS[key] = quant.scale
    return _FLOORS[key]


class WithSteps(nn.Module):
    """A frozen model that answers with its logits and the levels of its quantized activations, in order of the calls.

    The names in its state dict have `model.` in front.
    """

    def __init__(self, frozen: nn.Module) -> None:
        super().__init__()
        self.model = frozen

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        seen: list[Tensor] = []
        for module in self.model.modules():
            if isinstance(module, _Step):
                module.seen = seen
        return (self.model(x), *seen)


def packed_weights(model: nn.Module) -> dict[str, Packed]:
    """Levels, scale and mean of every quantized weight that has them, by state-dict name."""
    found = {}
    for path, module in model.named_modules():
        quant = quantized_weight(module)
        if quant is None:
            continue
        mean = None if quant.mean is None else quant.mean.cpu().numpy()
        name = f"{path}.weight" if path else "weight"
        found[name] = Packed(
            bits=quant.bits, levels=quant.levels.cpu().numpy(), scale=quant.scale.cpu().numpy(), mean=mean
        )
    return found


def freeze(model: nn.Module) -> nn.Module:
    """A copy of `model` in evaluation mode with the same state-dict names: our layers become torch's own, with the
    weight that they compute with; quantized activations become arithmetic. The model itself is not changed."""
    memo: dict[int, nn.Module] = {}  # deepcopy's memo with the replacements: Brevitas' own copy is slow
    for path, module in model.named_modules():
        plain = _plain(module, path)
        if plain is not None:
            memo[id(module)] = plain
    return copy.deepcopy(model, memo).cpu().float().requires_grad_(False).eval()


def _plain(module: nn.Module, path: str) -> nn.Module | None:
    """The replacement of `module`, or None if it can stay."""
    if is_quantized(module) or isinstance(module, Conv2d):  # the graph must have only torch's own operations
        return _plain_layer(module, path)
    quant = act_quant(module)
    if quant is None:
        return None
    return _Sign() if quant.bits == 1 else _QuantReLU(module, quant)


def _plain_layer(layer: nn.Module, path: str) -> nn.Module:
    weight = effective_weight(layer).detach().cpu()
    bias = layer.bias if isinstance(layer.bias, nn.Parameter) else None
    if isinstance(layer, nn.Conv2d):
        plain: nn.Module = nn.Conv2d(
            layer.in_channels,
            layer.out_channels,
            layer.kernel_size,  # type: ignore[arg-type]
            stride=layer.stride,  # type: ignore[arg-type]
            padding=layer.padding,  # type: ignore[arg-type]
            dilation=layer.dilation,  # type: ignore[arg-type]
            groups=layer.groups,
            bias=bias is not None,
            padding_mode=layer.padding_mode,
        )
    elif isinstance(layer, nn.Linear):
        plain = nn.Linear(layer.in_features, layer.out_features, bias=bias is not None)
    else:
        raise ModelError(f"layer {path!r} is a {type(layer).__name__}, which has no form in ONNX yet")
    state = {"weight": weight} if bias is None else {"weight": weight, "bias": bias.detach()}
    plain.load_state_dict(state)
    return plain
