"""A graph that takes raw values and answers probabilities, and the plain graph inside it. Imports no torch.

    input (uint8, or float32 readings) -> Cast -> Sub mean -> Mul 1/std -> the plain graph -> logits -> Softmax

in float32 and in this order, as `models/samples.py` normalizes: raw values give bit for bit what a device trains on.
Mean and scale are constants, not initializers: a graph's initializers are the weights of its model, so weights of a raw
graph are read and patched like those of a plain one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import onnx
from onnx import TensorProto, helper

from core.errors import ModelError
from quant.onnx.graph_check import dump_graph, parse_graph

__all__ = ["RawType", "is_raw", "plain_graph", "raw_graph", "takes_tokens"]

RawType = Literal["uint8", "float32"]
NORMALIZED, PREFIX = "input:normalized", "input:"
NUMBERS = "raw inputs: mean and std must be finite numbers, one or one per channel, std not 0"
LOGITS, PROBABILITIES = "logits", "probabilities"


def raw_graph(data: bytes, mean: Sequence[float], std: Sequence[float], *, dtype: RawType = "uint8") -> bytes:
    """`data`, a plain or raw graph, with the normalization (x - mean) / std in front and a softmax at its end.

    Mean and std are one number, or one per channel.
    """
    model = parse_graph(plain_graph(data))
    graph = model.graph
    taken = _input(graph)
    if taken.type.tensor_type.elem_type != TensorProto.FLOAT:
        raise ModelError("raw inputs: this graph takes token ids, which have no normalization; set raw_input = false")
    dims = len(taken.type.tensor_type.shape.dim)
    if not all(std):
        raise ModelError(NUMBERS)
    front = _front(dtype, _column(mean, dims), np.float32(1) / _column(std, dims))
    nodes = [*front, *(_with_inputs(node, {"input": NORMALIZED}) for node in graph.node)]
    nodes.append(helper.make_node("Softmax", [LOGITS], [PROBABILITIES], axis=-1))
    taken.type.tensor_type.elem_type = TensorProto.UINT8 if dtype == "uint8" else TensorProto.FLOAT
    _replace(graph, nodes, PROBABILITIES)
    return dump_graph(model)


def plain_graph(data: bytes) -> bytes:
    """The graph from normalized inputs to logits; a plain graph is returned as it is."""
    model = parse_graph(data)
    graph = model.graph
    if not _raw(graph):
        return data
    inner = [node for node in graph.node if not all(name.startswith(PREFIX) for name in node.output)]
    nodes = [_with_inputs(node, {NORMALIZED: "input"}) for node in inner if PROBABILITIES not in node.output]
    _input(graph).type.tensor_type.elem_type = TensorProto.FLOAT
    _replace(graph, nodes, LOGITS)
    return dump_graph(model)


def is_raw(data: bytes) -> bool:
    """Whether the graph takes raw values."""
    return _raw(parse_graph(data).graph)


def takes_tokens(data: bytes) -> bool:
    """Whether the graph takes token ids."""
    return any(value.type.tensor_type.elem_type == TensorProto.INT64 for value in parse_graph(data).graph.input)


def _raw(graph: onnx.GraphProto) -> bool:
    return any(NORMALIZED in node.output for node in graph.node)


def _input(graph: onnx.GraphProto) -> onnx.ValueInfoProto:
    named = [value for value in graph.input if value.name == "input"]
    if not named or len(graph.output) != 1 or graph.output[0].name not in (LOGITS, PROBABILITIES):
        raise ModelError("the ONNX graph has no input 'input' and output 'logits'; export the model with edgestill")
    found: onnx.ValueInfoProto = named[0]
    return found


def _front(dtype: RawType, mean: np.ndarray, scale: np.ndarray) -> list[onnx.NodeProto]:
    values = {"input:mean": mean, "input:scale": scale}
    nodes = [helper.make_node("Constant", [], [name], value=_constant(value)) for name, value in values.items()]
    source = "input"
    if dtype == "uint8":
        nodes.append(helper.make_node("Cast", ["input"], ["input:float"], to=TensorProto.FLOAT))
        source = "input:float"
    nodes.append(helper.make_node("Sub", [source, "input:mean"], ["input:centred"]))
    nodes.append(helper.make_node("Mul", ["input:centred", "input:scale"], [NORMALIZED]))
    return nodes


def _constant(value: np.ndarray) -> TensorProto:
    return TensorProto(data_type=TensorProto.FLOAT, dims=value.shape, raw_data=value.astype("<f4").tobytes())


def _column(numbers: Sequence[float], dims: int) -> np.ndarray:
    """One number per channel as (C, 1, 1), so that it is subtracted from (N, C, H, W)."""
    array = np.asarray(numbers, np.float32).reshape(-1)
    if not array.size or not np.isfinite(array).all():
        raise ModelError(NUMBERS)
    return array.reshape(-1, *(1,) * (dims - 2)) if array.size > 1 else array.reshape(())


def _with_inputs(node: onnx.NodeProto, names: dict[str, str]) -> onnx.NodeProto:
    renamed = onnx.NodeProto()
    renamed.CopyFrom(node)
    renamed.input[:] = [names.get(name, name) for name in node.input]
    return renamed


def _replace(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto], output: str) -> None:
    kept = list(nodes)
    del graph.node[:]
    graph.node.extend(kept)
    graph.output[0].name = output
