"""Tiny ONNX graphs built by hand, without torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WEIGHT = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
BIAS = np.array([0.5, -0.5], np.float32)


def model_of(
    nodes: Sequence[onnx.NodeProto], initializers: Sequence[TensorProto] = (), *, opset: int = 18, ir: int = 8
) -> onnx.ModelProto:
    """A model with input x (N, 3) and output y (N, 2)."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)


def linear(weight: np.ndarray = WEIGHT, bias: np.ndarray = BIAS) -> onnx.ModelProto:
    """y = x W^T + b, with weights `fc.weight` and `fc.bias`."""
    gemm = helper.make_node("Gemm", ["x", "fc.weight", "fc.bias"], ["y"], transB=1)
    return model_of([gemm], [numpy_helper.from_array(weight, "fc.weight"), numpy_helper.from_array(bias, "fc.bias")])
