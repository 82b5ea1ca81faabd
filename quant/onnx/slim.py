"""Shrink an exported graph: short names, shared constants. Imports no torch.

The exporter names every value and node by its place in the module tree and writes each constant separately. In a 1-bit
network those names take more bytes than the weights.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from quant.onnx.graph_check import dump_graph, parse_graph

__all__ = ["keep_outputs", "slim_graph"]


def slim_graph(data: bytes, *, prefix: str = "") -> bytes:
    """`data` with short names for intermediate values, and equal constants written once.

    Inputs and outputs keep their names; weights lose `prefix`.
    """
    model = parse_graph(data)
    graph = model.graph
    names = {value.name: value.name for value in (*graph.input, *graph.output)}
    names |= {t.name: t.name.removeprefix(prefix) for t in graph.initializer}
    constants: dict[bytes, str] = {}
    nodes = []
    for node in graph.node:
        key = node.attribute[0].SerializeToString() if node.op_type == "Constant" and len(node.attribute) == 1 else None
        if key is not None and key in constants and node.output[0] not in names:
            names[node.output[0]] = constants[key]
            continue
        nodes.append(_renamed(node, names))
        if key is not None:
            constants[key] = nodes[-1].output[0]
    for tensor in graph.initializer:
        tensor.name = names[tensor.name]
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.name = "edgestill"
    return dump_graph(model)


def keep_outputs(data: bytes, count: int) -> bytes:
    """`data` with its first `count` outputs only."""
    model = parse_graph(data)
    del model.graph.output[count:]
    return dump_graph(model)


def _renamed(node: onnx.NodeProto, names: dict[str, str]) -> onnx.NodeProto:
    for output in node.output:
        names.setdefault(output, f"{len(names):x}")
    renamed = onnx.NodeProto(op_type=node.op_type, domain=node.domain, attribute=node.attribute)
    renamed.input.extend(_looked_up(names, name) for name in node.input)
    renamed.output.extend(_looked_up(names, name) for name in node.output)
    return renamed


def _looked_up(names: Mapping[str, str], name: str) -> str:
    return names[name] if name else ""  # an omitted optional input has no name
