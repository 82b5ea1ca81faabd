"""A whole model's graph cut in front of its predictor: input to latent. Imports no torch.

The predictor is the one operator that uses `predictor.weight`; what it multiplies is the latent z.
"""

from __future__ import annotations

import onnx
from onnx import helper

from core.errors import ModelError
from quant.onnx.graph_check import dump_graph, parse_graph
from quant.onnx.raw import plain_graph

__all__ = ["extractor_graph"]

WEIGHT = "predictor.weight"


def extractor_graph(data: bytes) -> bytes:
    """The graph from normalized `input` to `z`, without weights used only by the predictor."""
    model = parse_graph(plain_graph(data))
    graph = model.graph
    users = [node for node in graph.node if WEIGHT in node.input]
    while len(users) == 1 and users[0].op_type == "Transpose":
        users = [node for node in graph.node if users[0].output[0] in node.input]
    if len(users) != 1 or users[0].op_type not in ("Gemm", "MatMul"):
        raise ModelError(f"no single operator of the ONNX graph uses {WEIGHT!r}; export the model with edgestill")
    latent = users[0].input[0]
    needed, nodes = {latent}, []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            nodes.append(node)
            needed.update(node.input)
    weights = [tensor for tensor in graph.initializer if tensor.name in needed]
    del graph.node[:], graph.output[:], graph.initializer[:]
    graph.node.extend(reversed(nodes))
    graph.initializer.extend(weights)
    _name_output(graph, latent)
    return dump_graph(model)


def _name_output(graph: onnx.GraphProto, latent: str) -> None:
    for node in graph.node:
        node.input[:] = ["z" if name == latent else name for name in node.input]
        node.output[:] = ["z" if name == latent else name for name in node.output]
    graph.output.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["batch", "latent"]))
