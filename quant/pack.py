"""Models to wire tensors and back, bit-exactly.

A quantized weight is sent as levels, scale and mean (`Packed`), all other tensors as float16 or float32. BatchNorm's
`num_batches_tracked` is not sent: nothing reads it, because momentum is always set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from core.errors import ModelError
from quant.float16 import as_wire, check_floats
from quant.layers import quantized_weight
from quant.quantized_weight import QuantizedWeight, QuantWeight
from wire.tensors import Packed, Tensor

__all__ = ["load_packed", "pack", "pack_state", "snap_", "unpack"]

_NOT_SENT = "num_batches_tracked"


@torch.inference_mode()  # no autograd bookkeeping for a hundred small tensors: a third of the time
def pack(model: nn.Module, *, floats: str = "fp16") -> dict[str, Tensor]:
    """The state of `model` by name: quantized weights as `Packed`, the rest as `floats` ("fp16" or "fp32").

    A tensor with a value beyond float16's range, or with only subnormal ones, stays float32.
    """
    check_floats(floats)
    quantized = {_weight_name(name): module for name, module in _quantized_modules(model).items()}
    tensors: dict[str, Tensor] = {}
    for name, value in _travelling(model).items():
        if name in quantized:
            tensors[name] = _pack_weight(name, quantized[name])
        else:
            tensors[name] = _to_wire(value, floats)
    return tensors


def pack_state(state: Mapping[str, torch.Tensor], *, floats: str = "fp32") -> dict[str, Tensor]:
    """A full-precision state as wire tensors, as published by the aggregator. Floats as in `pack`."""
    check_floats(floats)
    return {name: _to_wire(value, floats) for name, value in state.items() if _travels(name)}


def unpack(tensors: Mapping[str, Tensor]) -> dict[str, torch.Tensor]:
    """A state dict of float32 (integers keep their type), quantized weights dequantized."""
    return {name: _to_torch(value) for name, value in tensors.items()}


def load_packed(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load `tensors` into `model` exactly: a `Packed` weight is frozen, a float one becomes the layer's latent weight.

    `ModelError` names the tensors that are missing, unexpected or of another shape; the model is then not changed.
    """
    _check_fit(model, tensors)
    modules = {_weight_name(name): module for name, module in _quantized_modules(model).items()}
    model.load_state_dict(unpack(tensors), strict=False)  # missing names were checked above
    for name, module in modules.items():
        value = tensors[name]
        if isinstance(value, Packed):
            module.freeze_weight(_to_quant_weight(value, module.weight.device))
        else:
            module.unfreeze_weight()


def snap_(model: nn.Module, *, floats: str = "fp16") -> None:
    """Round the floats of `model` in place to what `pack(model, floats=floats)` carries; latent weights stay."""
    check_floats(floats)
    latent = {_weight_name(name) for name in _quantized_modules(model)}
    with torch.no_grad():
        for name, value in _travelling(model).items():
            if name not in latent and not (floats == "fp32" and value.dtype == torch.float32):  # already float32
                value.copy_(_to_torch(_to_wire(value, floats)))


def _quantized_modules(model: nn.Module) -> dict[str, QuantizedWeight]:
    return {name: module for name, module in model.named_modules() if isinstance(module, QuantizedWeight)}


def _weight_name(module: str) -> str:
    return f"{module}.weight" if module else "weight"


def _travelling(model: nn.Module) -> dict[str, torch.Tensor]:
    """The model's own tensors, not copies."""
    return {name: t for name, t in model.state_dict().items() if _travels(name)}


def _travels(name: str) -> bool:
    return name.rpartition(".")[2] != _NOT_SENT


def _pack_weight(name: str, module: QuantizedWeight) -> Packed:
    assert isinstance(module, nn.Module)
    quant = quantized_weight(module)
    if quant is None:
        raise ModelError(f"{name!r} is frozen but its levels are not known; load it with load_packed, or unfreeze it")
    mean = None if quant.mean is None else _numpy(quant.mean)
    return Packed(bits=quant.bits, levels=_numpy(quant.levels), scale=_numpy(quant.scale), mean=mean)


def _numpy(value: torch.Tensor) -> NDArray[Any]:
    array: NDArray[Any] = value.detach().cpu().numpy().copy(order="C")
    return array


def _to_wire(value: torch.Tensor, floats: str) -> NDArray[Any]:
    return as_wire(_numpy(value), floats)


def _to_torch(value: Tensor) -> torch.Tensor:
    array = value.dequantize() if isinstance(value, Packed) else value
    if array.dtype.kind == "f":
        return torch.from_numpy(array.astype(np.float32))
    return torch.from_numpy(array.copy())


def _to_quant_weight(packed: Packed, device: torch.device) -> QuantWeight:
    def tensor(array: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(array.copy()).to(device)

    mean = None if packed.mean is None else tensor(packed.mean)
    return QuantWeight(bits=packed.bits, levels=tensor(packed.levels), scale=tensor(packed.scale), mean=mean)


def _check_fit(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    own = {name: tuple(t.shape) for name, t in _travelling(model).items()}
    missing, unexpected = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
    if missing:
        raise ModelError(f"tensors missing: {_some(missing)}; is the update of another prototype?")
    if unexpected:
        raise ModelError(f"unexpected tensors: {_some(unexpected)}; is the update of another prototype?")
    bits = {_weight_name(name): module.weight_bits for name, module in _quantized_modules(model).items()}
    for name, value in tensors.items():
        shape = value.levels.shape if isinstance(value, Packed) else value.shape
        if shape != own[name]:
            raise ModelError(f"{name!r} is {shape}, expected {own[name]}; is the update of another prototype?")
        if isinstance(value, Packed) and value.bits != bits.get(name):
            layer = f"{bits[name]} bit" if name in bits else "float"
            raise ModelError(
                f"{name!r} is packed at {value.bits} bit, but the layer has {layer}; or load what unpack gives"
            )


def _some(names: list[str], limit: int = 4) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(repr(n) for n in names[:limit]) + more
