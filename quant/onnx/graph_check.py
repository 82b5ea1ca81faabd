"""Untrusted ONNX files: parsed and checked before anything else reads them. Imports no torch.

A graph may come from a device, so nothing in it is trusted: size, operators, location of its data, and whether a tensor
has as many bytes as its shape requires. The process that runs a graph must limit what the file does not reveal (run
time, memory of a batch).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped, unused-ignore]
from onnx import TensorProto

from core.errors import ModelError

__all__ = [
    "ALLOWED_OPERATORS",
    "DEFAULT_DOMAINS",
    "GraphLimits",
    "check_graph",
    "dump_graph",
    "parse_graph",
    "tensor_bytes",
]

#: Operators of the zoo and of ordinary classifiers. No control flow (it hides subgraphs), no random numbers (a teacher
#: must be deterministic), no strings, and nothing that creates a large tensor from a number in the file.
_OPERATORS = """
    Abs Add And ArgMax AveragePool BatchNormalization Cast Ceil Clip Concat Constant Conv DequantizeLinear Div Dropout
    Equal Erf Exp Flatten Floor Gather Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual
    GroupNormalization HardSigmoid HardSwish Identity InstanceNormalization LayerNormalization LeakyRelu Less
    LessOrEqual Log LogSoftmax MatMul Max MaxPool Min Mod Mul Neg Not Or Pad Pow PRelu QuantizeLinear Reciprocal
    ReduceMax ReduceMean ReduceSum Relu Reshape Round Shape Sigmoid Sign Slice Softmax Softplus Split Sqrt Squeeze Sub
    Tanh Transpose Unsqueeze Where
"""
ALLOWED_OPERATORS = frozenset(_OPERATORS.split())
DEFAULT_DOMAINS = frozenset({"", "ai.onnx"})
MAX_BYTES = 64 * 2**20
MAX_ELEMENTS = 64 * 2**20
MAX_DIMS = 8  # as of a tensor message

#: Bits of one element in `raw_data`.
_BITS: dict[int, int] = {
    TensorProto.FLOAT: 32,
    TensorProto.FLOAT16: 16,
    TensorProto.DOUBLE: 64,
    TensorProto.INT64: 64,
    TensorProto.INT32: 32,
    TensorProto.INT8: 8,
    TensorProto.UINT8: 8,
    TensorProto.BOOL: 8,
    TensorProto.INT4: 4,
    TensorProto.INT2: 2,
}
_FLOATS: dict[int, np.dtype[Any]] = {
    TensorProto.FLOAT: np.dtype("<f4"),
    TensorProto.FLOAT16: np.dtype("<f2"),
    TensorProto.DOUBLE: np.dtype("<f8"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLimits:
    """Limits of a graph. The sizes bound the file and its tensors, not the resources for running it."""

    max_bytes: int = MAX_BYTES
    max_nodes: int = 5_000
    max_elements: int = MAX_ELEMENTS  # of one tensor
    min_opset: int = 13
    max_opset: int = 25
    max_ir: int = 13
    operators: frozenset[str] = ALLOWED_OPERATORS


def parse_graph(data: bytes, *, max_bytes: int = 2**31 - 1) -> onnx.ModelProto:
    """`data` as an ONNX model with a graph, without looking into the graph; 2 GiB is protobuf's own limit."""
    if len(data) > max_bytes:
        raise ModelError(f"ONNX file of {len(data)} bytes, at most {max_bytes} are accepted")
    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(bytes(data))
    except (DecodeError, ValueError, RecursionError):  # ValueError: a field that must be UTF-8 and is not
        raise ModelError(f"{len(data)} bytes are not an ONNX file") from None
    if not model.HasField("graph") or not model.opset_import:
        raise ModelError("ONNX file without a graph or without an opset")
    _check_names(model.graph)
    return model


def dump_graph(model: onnx.ModelProto) -> bytes:
    """`model` as the bytes of a file."""
    data: bytes = model.SerializeToString()
    return data


def check_graph(data: bytes, limits: GraphLimits | None = None) -> onnx.ModelProto:
    """The model in `data`, if it is within `limits` and plain ONNX; otherwise ModelError with the reason."""
    limits = limits or GraphLimits()
    model = parse_graph(data, max_bytes=limits.max_bytes)
    _check_versions(model, limits)
    _check_nodes(model.graph, limits)
    _check_initializers(model.graph, limits)
    for tensor in _constants(model.graph):
        tensor_bytes(tensor, max_elements=limits.max_elements)
    try:
        onnx.checker.check_model(model)
    except Exception as error:  # the checker is a C++ library: any exception means that the file is invalid
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"ONNX graph refused by the checker: {_shown(reason)}") from None
    return model


def tensor_bytes(tensor: TensorProto, *, max_elements: int = MAX_ELEMENTS) -> bytes:
    """The little-endian bytes of `tensor`, exactly as many as its shape needs, held in the file itself."""
    where = f"ONNX tensor {_shown(tensor.name)}"
    if tensor.data_location != TensorProto.DEFAULT or tensor.external_data:
        raise ModelError(f"{where} keeps its data in another file; export with external_data=False")
    bits = _BITS.get(tensor.data_type)
    if bits is None:
        raise ModelError(f"{where} has data type {tensor.data_type}, which is not read")
    if len(tensor.dims) > MAX_DIMS:
        raise ModelError(f"{where} has {len(tensor.dims)} dimensions, at most {MAX_DIMS} are accepted")
    # a dimension of 0 must not hide that others are beyond what an array can have
    if any(d < 0 for d in tensor.dims) or math.prod(max(d, 1) for d in tensor.dims) > max_elements:
        raise ModelError(
            f"{where} has shape {_shown(tuple(tensor.dims))}, at most {max_elements} elements are accepted"
        )
    count = math.prod(tensor.dims)
    raw = tensor.raw_data if tensor.HasField("raw_data") else _typed_bytes(tensor, where)
    if len(raw) != (expected := -(-count * bits // 8)):
        raise ModelError(f"{where} has {len(raw)} bytes, its shape needs {expected}")
    return bytes(raw)


def _typed_bytes(tensor: TensorProto, where: str) -> bytes:
    """Data of a tensor written as a list of numbers: small constants of other exporters."""
    lists: dict[int, tuple[Any, str]] = {
        TensorProto.FLOAT: (tensor.float_data, "<f4"),
        TensorProto.DOUBLE: (tensor.double_data, "<f8"),
        TensorProto.INT64: (tensor.int64_data, "<i8"),
        TensorProto.INT32: (tensor.int32_data, "<i4"),
    }
    if tensor.data_type in lists:
        values, dtype = lists[tensor.data_type]
        return np.array(values, dtype=dtype).tobytes()
    if tensor.data_type in (TensorProto.INT8, TensorProto.UINT8, TensorProto.BOOL):
        return np.array(tensor.int32_data, dtype="<i4").astype("<u1").tobytes()
    raise ModelError(f"{where} has no raw data")


def _constants(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t


def _check_versions(model: onnx.ModelProto, limits: GraphLimits) -> None:
    if not 3 <= model.ir_version <= limits.max_ir:
        raise ModelError(f"ONNX IR version {model.ir_version}, 3 to {limits.max_ir} are supported")
    for opset in model.opset_import:
        if opset.domain not in DEFAULT_DOMAINS:
            raise ModelError(f"ONNX operators of domain {_shown(opset.domain)}; only those of ai.onnx are run")
        if not limits.min_opset <= opset.version <= limits.max_opset:
            raise ModelError(f"ONNX opset {opset.version}, {limits.min_opset} to {limits.max_opset} are supported")
    if model.functions or model.training_info:
        raise ModelError("ONNX file with functions or training graphs of its own; export the plain inference graph")


def _check_nodes(graph: onnx.GraphProto, limits: GraphLimits) -> None:
    if len(graph.node) > limits.max_nodes:
        raise ModelError(f"ONNX graph of {len(graph.node)} nodes, at most {limits.max_nodes} are run")
    if graph.sparse_initializer:
        raise ModelError("ONNX graph with sparse tensors, which are not read")
    for node in graph.node:
        if node.domain not in DEFAULT_DOMAINS:
            raise ModelError(
                f"ONNX operator {_shown(node.op_type)} of domain {_shown(node.domain)}; only ai.onnx is run"
            )
        if node.op_type not in limits.operators:
            raise ModelError(f"ONNX operator {_shown(node.op_type)} is not on the list of allowed ones")
        for attribute in node.attribute:
            if attribute.type in _NESTED or attribute.HasField("g") or attribute.graphs or attribute.tensors:
                raise ModelError(f"ONNX operator {_shown(node.op_type)} with a nested {_shown(attribute.name)}")


_NESTED = {
    onnx.AttributeProto.GRAPH,
    onnx.AttributeProto.GRAPHS,
    onnx.AttributeProto.TENSORS,
    onnx.AttributeProto.SPARSE_TENSOR,
    onnx.AttributeProto.SPARSE_TENSORS,
    onnx.AttributeProto.TYPE_PROTO,
    onnx.AttributeProto.TYPE_PROTOS,
}


def _check_names(graph: onnx.GraphProto) -> None:
    """protobuf returns a name that is not UTF-8 as bytes, but all readers expect str."""
    names = [t.name for t in graph.initializer] + [node.op_type for node in graph.node]
    for node in graph.node:
        names += [*node.input, *node.output]
    if not all(isinstance(name, str) for name in names):
        raise ModelError("ONNX graph with a name that is not UTF-8")


def _check_initializers(graph: onnx.GraphProto, limits: GraphLimits) -> None:
    if len(graph.initializer) > limits.max_nodes:
        raise ModelError(f"ONNX graph of {len(graph.initializer)} weights, at most {limits.max_nodes} are accepted")
    seen: set[str] = set()
    for tensor in graph.initializer:
        if tensor.name in seen:
            raise ModelError(f"ONNX tensor {_shown(tensor.name)} is defined twice")
        seen.add(tensor.name)
        raw, dtype = tensor_bytes(tensor, max_elements=limits.max_elements), _FLOATS.get(tensor.data_type)
        if dtype is not None and not np.isfinite(np.frombuffer(raw, dtype)).all():
            raise ModelError(f"ONNX tensor {_shown(tensor.name)} holds NaN or infinity")


def _shown(value: object) -> str:
    """`value` quoted and truncated: it is untrusted."""
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
