"""Integers of 2, 4 and 8 bits as ONNX stores them, and which of them the installed ONNX Runtime runs. Imports no torch.

ONNX packs several levels to a byte, the first in the lowest bits; a last byte that is not full is filled with zeros:
INT2 holds -2..1 (opset 25, IR 13), INT4 holds -8..7 (opset 21, IR 10), INT8 one level a byte (opset 13). There is no
1-bit type: signs are stored as INT2.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from core.errors import ModelError
from quant.onnx.graph_check import tensor_bytes

__all__ = [
    "STORAGES",
    "LowBits",
    "Storage",
    "default_low_bits",
    "levels_of",
    "levels_tensor",
    "storage_for",
    "storage_of",
]

log = logging.getLogger("edgestill.onnx")

LowBits = Literal["int2", "int4", "int8"]


@dataclass(frozen=True, slots=True)
class Storage:
    """One ONNX integer type and the versions that a graph needs to hold it."""

    data_type: int
    bits: int
    opset: int
    ir: int


STORAGES: dict[str, Storage] = {
    "int2": Storage(TensorProto.INT2, 2, 25, 13),
    "int4": Storage(TensorProto.INT4, 4, 21, 10),
    "int8": Storage(TensorProto.INT8, 8, 13, 7),
}


def storage_for(bits: int, low_bits: LowBits) -> Storage:
    """The narrowest type that holds `bits`-bit levels and is not narrower than `low_bits`."""
    return STORAGES[{1: low_bits, 2: low_bits, 4: "int8" if low_bits == "int8" else "int4", 8: "int8"}[bits]]


def storage_of(tensor: TensorProto) -> Storage:
    """The storage of an initializer that holds levels."""
    for storage in STORAGES.values():
        if storage.data_type == tensor.data_type:
            return storage
    raise ModelError(f"ONNX tensor {tensor.name!r} has data type {tensor.data_type}, expected INT2, INT4 or INT8")


def levels_tensor(name: str, levels: NDArray[np.int8], storage: Storage) -> TensorProto:
    """An initializer that holds `levels` (int8) as raw bytes; `helper.make_tensor` would spend four bytes on each."""
    flat = levels.astype(np.int8, copy=False).reshape(-1)
    per_byte = 8 // storage.bits
    if per_byte > 1:
        fields = np.zeros(-(-flat.size // per_byte) * per_byte, np.uint8)
        fields[: flat.size] = flat.view(np.uint8) & (2**storage.bits - 1)
        whole = fields[::per_byte].copy()
        for place in range(1, per_byte):  # column by column: seven times faster than a reduction along rows of four
            whole |= fields[place::per_byte] << np.uint8(storage.bits * place)
        flat = whole.view(np.int8)
    return TensorProto(name=name, data_type=storage.data_type, dims=levels.shape, raw_data=flat.tobytes())


def levels_of(tensor: TensorProto) -> NDArray[np.int8]:
    """The int8 levels in an INT2, INT4 or INT8 initializer."""
    raw: NDArray[np.uint8] = np.frombuffer(tensor_bytes(tensor), np.uint8)
    shape, bits = tuple(tensor.dims), storage_of(tensor).bits
    if bits == 8:
        whole: NDArray[np.int8] = raw.view(np.int8).reshape(shape).copy()
        return whole
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    # left-align the field, then shift back arithmetically: the sign bit is extended
    aligned: NDArray[np.int8] = ((raw[:, None] >> shifts) << np.uint8(8 - bits)).view(np.int8).reshape(-1)
    levels: NDArray[np.int8] = aligned[: int(np.prod(shape))] >> np.int8(8 - bits)
    return levels.reshape(shape)


@lru_cache(maxsize=1)
def default_low_bits() -> LowBits:
    """The narrowest storage that the installed ONNX Runtime supports: tested, not looked up by version."""
    narrow: tuple[LowBits, ...] = ("int2", "int4")
    for name in narrow:
        if _runs(STORAGES[name]):
            return name
    return "int8"


def _runs(storage: Storage) -> bool:
    import onnxruntime as ort

    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0),
        helper.make_node("Mul", ["x", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "probe",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])],
        [
            levels_tensor("q", np.array([[1, -1], [-1, 1]], np.int8), storage),
            helper.make_tensor("s", TensorProto.FLOAT, [2], np.array([1, 2], "<f4").tobytes(), raw=True),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", storage.opset)], ir_version=storage.ir)
    options = ort.SessionOptions()
    options.log_severity_level = 4  # a failure is an expected result, not to be logged
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        (y,) = session.run(None, {"x": np.ones((2, 2), np.float32)})
    except Exception as error:  # ONNX Runtime has an exception class per status code
        log.debug("ONNX Runtime %s does not run int%d: %r", ort.__version__, storage.bits, error)
        return False
    return bool(np.array_equal(y, [[1, -1], [-2, 2]]))
