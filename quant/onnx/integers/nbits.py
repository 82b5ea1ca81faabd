"""Linear layers with few bits as `MatMulNBits`, an operator of ONNX Runtime that multiplies levels directly.

    y = x W^T + b,  W = mean + scale * level    becomes    y = MatMulNBits(x, levels, scale) + mean * sum(x) + b

A row of W is stored in blocks of BLOCK levels with one scale each, as unsigned numbers: level + 2^(bits - 1). The
operator quantizes x to 8 bits per block (`accuracy_level` 4), so its results differ from the plain graph's by rounding;
any other level computes in float32 and is tens of times slower than the plain graph, so none is written.

The graph needs ONNX Runtime (its domain com.microsoft), and its weights can no longer be read or replaced by name:
it is a file to run, not one to train from. Imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from core.errors import ModelError
from quant.onnx.graph_check import dump_graph, parse_graph
from quant.onnx.slots import Slot, find_slots
from wire.tensors import Packed

__all__ = ["BLOCK", "NBits", "to_nbits"]

BLOCK = 64  # levels that share a scale; ONNX Runtime has kernels for powers of two from 16
DOMAIN = "com.microsoft"
ACCURACY_LEVEL = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class NBits:
    """A converted graph, and the names of the weights that were converted."""

    data: bytes
    weights: tuple[str, ...]


def to_nbits(data: bytes, *, low_bits: int = 2) -> NBits:
    """Convert every linear layer with 1-, 2- or 4-bit weights; those of 1 and 2 bits are stored in `low_bits` (2 or 4).

    ModelError if the graph has none.
    """
    model = parse_graph(data)
    slots = {slot.name: slot for slot in find_slots(model) if slot.bits in (1, 2, 4)}
    nodes, done = [], []
    for node in model.graph.node:
        slot = slots.get(node.input[1]) if _is_linear(node) else None
        if slot is None:
            nodes.append(node)
            continue
        nodes += _converted(model.graph, node, slot, max(low_bits, slot.bits or 0))
        done.append(slot.name)
    if not done:
        raise ModelError("MatMulNBits: the model has no linear layer with 1-, 2- or 4-bit weights")
    _drop(model.graph, nodes, done)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return NBits(data=dump_graph(model), weights=tuple(done))


def _is_linear(node: onnx.NodeProto) -> bool:
    """Whether the node is torch's linear layer: x W^T + b."""
    if node.op_type != "Gemm" or len(node.input) < 2:
        return False
    given = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    plain = given.get("alpha", 1.0) == 1.0 and given.get("beta", 1.0) == 1.0 and not given.get("transA", 0)
    return bool(plain and given.get("transB", 0) == 1)


def _converted(graph: onnx.GraphProto, node: onnx.NodeProto, slot: Slot, bits: int) -> list[onnx.NodeProto]:
    weight = slot.read()
    assert isinstance(weight, Packed)
    name, (outputs, inputs) = slot.name, weight.levels.shape
    graph.initializer.append(_bytes(f"{name}:n{bits}", _blocks(weight.levels, bits)))
    scale = np.broadcast_to(np.asarray(weight.scale, np.float32).reshape(-1), (outputs,))
    graph.initializer.append(_floats(f"{name}:blocks", np.repeat(scale, -(-inputs // BLOCK))))
    product = f"{name}:product"
    made = [
        helper.make_node(
            "MatMulNBits",
            [node.input[0], f"{name}:n{bits}", f"{name}:blocks"],
            [product],
            domain=DOMAIN,
            K=inputs,
            N=outputs,
            bits=bits,
            block_size=BLOCK,
            accuracy_level=ACCURACY_LEVEL,
        )
    ]
    if weight.mean is not None:
        mean = np.broadcast_to(np.asarray(weight.mean, np.float32).reshape(-1), (outputs,))
        graph.initializer.append(_floats(f"{name}:row", mean.reshape(1, -1)))
        graph.initializer.append(_axis(f"{name}:axis"))
        made.append(helper.make_node("ReduceSum", [node.input[0], f"{name}:axis"], [f"{name}:sum"], keepdims=1))
        made.append(helper.make_node("Mul", [f"{name}:sum", f"{name}:row"], [f"{name}:shift"]))
        made.append(helper.make_node("Add", [product, f"{name}:shift"], [f"{name}:shifted"]))
        product = f"{name}:shifted"
    if len(node.input) > 2:
        made.append(helper.make_node("Add", [product, node.input[2]], [node.output[0]]))
    else:
        made[-1].output[0] = node.output[0]
    return made


def _blocks(levels: NDArray[np.int8], bits: int) -> NDArray[np.uint8]:
    """(N, K) levels as (N, blocks, bytes): several to a byte, the first in the lowest bits; padded with level 0."""
    rows, width = levels.shape
    padded = np.zeros((rows, -(-width // BLOCK) * BLOCK), np.int16)
    padded[:, :width] = levels
    fields = (padded + 2 ** (bits - 1)).astype(np.uint8).reshape(rows, -1, BLOCK * bits // 8, 8 // bits)
    whole = np.zeros(fields.shape[:-1], np.uint8)
    for place in range(8 // bits):
        whole |= fields[..., place] << np.uint8(bits * place)
    return whole


def _drop(graph: onnx.GraphProto, nodes: list[onnx.NodeProto], names: list[str]) -> None:
    """Replace the nodes, without those that computed the converted weights, and without initializers of theirs."""
    unused = {part for name in names for part in (name, f"{name}:scaled")}
    kept = [node for node in nodes if not unused.intersection(node.output)]
    used = {name for node in kept for name in node.input}
    weights = [tensor for tensor in graph.initializer if tensor.name in used]
    kept = [_copy(node) for node in kept]
    weights = [_copied(tensor) for tensor in weights]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(kept)
    graph.initializer.extend(weights)


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy


def _copied(tensor: TensorProto) -> TensorProto:
    copy = TensorProto()
    copy.CopyFrom(tensor)
    return copy


def _floats(name: str, array: NDArray[np.float32]) -> TensorProto:
    return TensorProto(name=name, data_type=TensorProto.FLOAT, dims=array.shape, raw_data=array.astype("<f4").tobytes())


def _bytes(name: str, array: NDArray[np.uint8]) -> TensorProto:
    return TensorProto(name=name, data_type=TensorProto.UINT8, dims=array.shape, raw_data=array.tobytes())


def _axis(name: str) -> TensorProto:
    return TensorProto(name=name, data_type=TensorProto.INT64, dims=[1], raw_data=np.array([-1], "<i8").tobytes())
