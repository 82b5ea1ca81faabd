"""How a weight is stored in an ONNX graph: one float initializer, or levels, scale and mean. Imports no torch.

A float weight is an initializer with its name. A quantized weight `W` is the output `W` of

    [W:q<bits> (INT2, INT4, INT8), W:scale] -> DequantizeLinear -> (W:scaled, W:mean -> Add) -> W

so every operator that used `W` still does, and the number after `q` is the number of bits of the levels: signs are
`W:q1` although ONNX stores them in two bits or more. ONNX Runtime multiplies and adds in float32 in the same order as
`Packed.dequantize`, so it computes with exactly the weights of the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from core.errors import ModelError, TensorError
from quant.levels import quantized
from quant.onnx.graph_check import tensor_bytes
from quant.onnx.integers.lowbit import Storage, levels_of, levels_tensor, storage_of
from wire.tensors import Packed, Tensor

__all__ = ["Slot", "dequantize_nodes", "find_slots", "packed_initializers"]

_LEVELS = re.compile(r"(?P<name>.+):q(?P<bits>[1248])", re.DOTALL)
_DTYPES: dict[int, str] = {
    TensorProto.FLOAT: "<f4",
    TensorProto.FLOAT16: "<f2",
    TensorProto.DOUBLE: "<f8",
    TensorProto.INT64: "<i8",
    TensorProto.INT32: "<i4",
    TensorProto.INT8: "<i1",
    TensorProto.UINT8: "<u1",
    TensorProto.BOOL: "?",
}


@dataclass(frozen=True, slots=True)
class Slot:
    """The initializers of one weight. Where `bits` is None, `levels` is the float tensor itself."""

    name: str
    bits: int | None
    levels: TensorProto
    scale: TensorProto | None = None
    mean: TensorProto | None = None

    def read(self) -> Tensor:
        """The weight; scale and mean as float16 if that is exact, as on the wire."""
        if self.bits is None or self.scale is None:
            return _array(self.levels)
        scale, mean = _array(self.scale), None if self.mean is None else _array(self.mean)
        half = all(_is_half(part) for part in (scale, mean) if part is not None)
        dtype, shape = (np.float16 if half else np.float32), (-1,) if scale.ndim else ()
        try:
            return Packed(
                bits=self.bits,
                levels=levels_of(self.levels),
                scale=scale.astype(dtype).reshape(shape),
                mean=None if mean is None else mean.astype(dtype).reshape(shape),
            )
        except (TensorError, ValueError) as error:
            raise ModelError(f"weight {self.name!r} in the ONNX graph: {error}") from None

    def write(self, value: Tensor, *, quantize: bool = False) -> None:
        """Replace the weight by `value`; shape and bits must be the same. With `quantize`, floats become levels."""
        shape = value.levels.shape if isinstance(value, Packed) else value.shape
        if shape != tuple(self.levels.dims):
            raise ModelError(f"weight {self.name!r} is {shape}, the ONNX template has {tuple(self.levels.dims)}")
        if quantize and self.bits is not None and self.scale is not None and not isinstance(value, Packed):
            value = quantized(value, self.bits, per_channel=bool(self.scale.dims))
        if self.bits is None:
            _store(self.levels, value.dequantize() if isinstance(value, Packed) else value, self.name)
        elif isinstance(value, Packed) and value.bits == self.bits:
            self._write_packed(value)
        else:
            given = f"{value.bits}-bit levels" if isinstance(value, Packed) else f"a {value.dtype} array"
            raise ModelError(f"weight {self.name!r} is {given}, the ONNX template has {self.bits}-bit levels")

    def _write_packed(self, value: Packed) -> None:
        try:
            value.check()  # again: arrays can be written into
        except TensorError as error:
            raise ModelError(f"weight {self.name!r}: {error}") from None
        if value.mean is not None and self.mean is None:
            raise ModelError(f"weight {self.name!r} has a mean, the ONNX template has none")
        self.levels.raw_data = levels_tensor("", value.levels, storage_of(self.levels)).raw_data
        for tensor, part in ((self.scale, value.scale), (self.mean, value.mean)):
            if tensor is None:
                continue
            part = np.zeros((), np.float32) if part is None else part
            if part.ndim and not tensor.dims:
                raise ModelError(
                    f"weight {self.name!r} is scaled per channel, the ONNX template per tensor: "
                    "it is of an older version, make it again"
                )
            column = part.reshape(-1, *(1,) * (len(tensor.dims) - 1)) if part.ndim else part
            try:
                spread = np.broadcast_to(column, tuple(tensor.dims))
            except ValueError:
                raise ModelError(
                    f"weight {self.name!r}: {part.shape} do not fit a scale or mean of the ONNX template"
                ) from None
            _store(tensor, spread, self.name)


def find_slots(model: onnx.ModelProto) -> list[Slot]:
    """Every weight of `model`."""
    initializers = {t.name: t for t in model.graph.initializer}
    producers = {node.output[0]: node for node in model.graph.node if node.output}
    matches = [match for name in initializers if (match := _LEVELS.fullmatch(name))]
    packed = [_packed_slot(match["name"], int(match["bits"]), initializers, producers) for match in matches]
    parts = {t.name for slot in packed for t in (slot.levels, slot.scale, slot.mean) if t is not None}
    return packed + [Slot(t.name, None, t) for t in model.graph.initializer if t.name not in parts]


def packed_initializers(name: str, weight: Packed, storage: Storage) -> Iterator[TensorProto]:
    """The initializers of a quantized weight."""
    yield levels_tensor(f"{name}:q{weight.bits}", weight.levels, storage)
    yield _float_tensor(f"{name}:scale", weight.scale)
    if weight.mean is not None:
        shape = weight.mean.shape + (1,) * (weight.levels.ndim - 1) if weight.mean.ndim else ()
        yield _float_tensor(f"{name}:mean", weight.mean.reshape(shape))


def dequantize_nodes(name: str, weight: Packed) -> list[onnx.NodeProto]:
    """The nodes that compute the value `name` from the initializers of a quantized weight."""
    scaled = name if weight.mean is None else f"{name}:scaled"
    nodes = [helper.make_node("DequantizeLinear", [f"{name}:q{weight.bits}", f"{name}:scale"], [scaled], axis=0)]
    if weight.mean is not None:
        nodes.append(helper.make_node("Add", [scaled, f"{name}:mean"], [name]))
    return nodes


def _packed_slot(
    name: str, bits: int, initializers: Mapping[str, TensorProto], producers: Mapping[str, onnx.NodeProto]
) -> Slot:
    """The parts of `name`, if they are wired as in the module's docstring: names are not trusted."""
    levels, scale, mean = f"{name}:q{bits}", f"{name}:scale", None
    node = producers.get(name)
    if node is not None and node.op_type == "Add":
        mean = f"{name}:mean"
        node = producers.get(node.input[0]) if list(node.input)[1:] == [mean] else None
    wired = node is not None and node.op_type == "DequantizeLinear" and list(node.input) == [levels, scale]
    floats = [initializers.get(part) for part in (scale, mean) if part is not None]
    if not wired or any(t is None or t.data_type != TensorProto.FLOAT for t in floats):
        raise ModelError(f"weight {name!r} in the ONNX graph is not dequantized as the names of its parts say")
    return Slot(name, bits, initializers[levels], initializers[scale], None if mean is None else initializers[mean])


def _float_tensor(name: str, array: NDArray[Any]) -> TensorProto:
    raw = array.astype("<f4").tobytes()
    return TensorProto(name=name, data_type=TensorProto.FLOAT, dims=array.shape, raw_data=raw)


def _array(tensor: TensorProto) -> NDArray[Any]:
    if tensor.data_type not in _DTYPES:
        return levels_of(tensor)
    flat: NDArray[Any] = np.frombuffer(tensor_bytes(tensor), _DTYPES[tensor.data_type]).copy()
    return flat.reshape(tuple(tensor.dims))


def _store(tensor: TensorProto, array: NDArray[Any], name: str) -> None:
    dtype = np.dtype(_DTYPES.get(tensor.data_type, "V1"))
    if array.dtype != dtype and not (array.dtype == np.float16 and dtype == np.float32):
        raise ModelError(f"weight {name!r} is {array.dtype}, the ONNX template has {dtype}")
    if dtype.kind == "f" and not np.isfinite(array).all():
        raise ModelError(f"weight {name!r} holds NaN or infinity")
    for field in ("float_data", "int32_data", "int64_data", "double_data"):
        tensor.ClearField(field)
    tensor.raw_data = array.astype(dtype, copy=False).tobytes()


def _is_half(array: NDArray[Any]) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.array_equal(array.astype(np.float16).astype(np.float32), array))
