"""Graphs with short names and shared constants."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from quant.onnx.graph_check import parse_graph
from quant.onnx.session import open_session, run_graph
from quant.onnx.slim import keep_outputs, slim_graph
from tests.quant.onnx.graphs import BIAS, WEIGHT, model_of

pytestmark = pytest.mark.light


def wordy() -> bytes:
    """y = clip(x W^T + b, 1, 2) + 1, the constant 1 written twice."""

    def constant(value: float, name: str):
        return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.float32(value)), name=name)

    nodes = [
        helper.make_node("Gemm", ["x", "m.weight", "m.bias"], ["/m/Gemm_output_0"], transB=1, name="/m/Gemm"),
        constant(1, "/m/one"),
        constant(2, "/m/two"),
        helper.make_node("Clip", ["/m/Gemm_output_0", "/m/one", "/m/two"], ["/m/Clip_output_0"]),
        constant(1, "/m/one_again"),
        helper.make_node("Add", ["/m/Clip_output_0", "/m/one_again"], ["y"]),
    ]
    weights = [numpy_helper.from_array(WEIGHT, "m.weight"), numpy_helper.from_array(BIAS, "m.bias")]
    model = model_of(nodes, weights)
    model.graph.value_info.append(helper.make_tensor_value_info("/m/Gemm_output_0", TensorProto.FLOAT, ["N", 2]))
    return model.SerializeToString()


def test_the_answer_is_the_same():
    x = np.array([[0, 0, 0], [0.1, 0.2, 0.3]], np.float32)
    before, after = (run_graph(open_session(data), x) for data in (wordy(), slim_graph(wordy())))
    np.testing.assert_array_equal(before, after)
    assert before[0].tolist() == [2, 2]  # clip(b, 1, 2) + 1


def test_names_between_input_weights_and_output_are_short_and_constants_are_shared():
    graph = parse_graph(slim_graph(wordy(), prefix="m.")).graph
    assert [node.op_type for node in graph.node] == ["Gemm", "Constant", "Constant", "Clip", "Add"]
    assert {t.name for t in graph.initializer} == {"weight", "bias"}
    assert list(graph.node[0].input) == ["x", "weight", "bias"]
    assert graph.node[-1].output[0] == "y"
    assert all(len(node.output[0]) == 1 and not node.name for node in graph.node)
    assert not graph.value_info


def test_an_input_that_is_left_out_stays_out():
    clip = helper.make_node("Clip", ["h", "", "top"], ["y"])
    slice_ = helper.make_node("Gemm", ["x", "w"], ["h"], transB=1)
    weights = [numpy_helper.from_array(WEIGHT, "w"), numpy_helper.from_array(np.float32(2), "top")]
    data = slim_graph(model_of([slice_, clip], weights).SerializeToString())
    assert list(parse_graph(data).graph.node[1].input)[1] == ""
    assert run_graph(open_session(data), np.ones((1, 3), np.float32)).tolist() == [[2, 2]]


def test_only_the_first_outputs_are_kept():
    model = parse_graph(wordy())
    model.graph.output.append(helper.make_tensor_value_info("/m/Gemm_output_0", TensorProto.FLOAT, ["N", 2]))
    assert [o.name for o in parse_graph(keep_outputs(model.SerializeToString(), 1)).graph.output] == ["y"]
