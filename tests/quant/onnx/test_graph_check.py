"""What a graph from outside may be."""

from __future__ import annotations

import contextlib

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from core.errors import ModelError
from quant.onnx.graph_check import ALLOWED_OPERATORS, GraphLimits, check_graph, parse_graph, tensor_bytes
from quant.onnx.weights import compact_weights, patch_weights, read_weights
from tests.quant.onnx.graphs import BIAS, WEIGHT, linear, model_of
from wire.tensors import Packed

pytestmark = pytest.mark.light

GOOD = compact_weights(
    linear().SerializeToString(),
    {"fc.weight": Packed(bits=1, levels=np.sign(WEIGHT - 3.5).astype(np.int8), scale=np.float16([1, 2]))},
)


def refused(model: onnx.ModelProto, message: str, limits: GraphLimits | None = None) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        check_graph(model.SerializeToString(), limits)
    assert "\n" not in str(caught.value)


def test_a_plain_graph_passes():
    assert check_graph(GOOD).graph.output[0].name == "y"


def test_garbage_and_nothing_are_not_graphs():
    for data in (b"", b"\xff" * 40, b"hello", GOOD[: len(GOOD) // 2]):
        with pytest.raises(ModelError):
            check_graph(data)


def test_sizes_are_limited():
    refused(linear(), "at most 10 are accepted", GraphLimits(max_bytes=10))
    refused(linear(), "at most 0 are run", GraphLimits(max_nodes=0))
    crowd = model_of([], [numpy_helper.from_array(BIAS, f"w{i}") for i in range(4)])
    refused(crowd, "4 weights, at most 3 are accepted", GraphLimits(max_nodes=3))
    refused(linear(), r"'fc.weight' has shape \(2, 3\), at most 5 elements", GraphLimits(max_elements=5))


def test_versions_are_limited():
    refused(model_of([], opset=12), "opset 12, 13 to 25 are supported")
    refused(model_of([], opset=26), "opset 26")
    refused(model_of([], ir=14), "IR version 14")


def test_other_domains_are_refused_in_imports_and_in_nodes():
    model = linear()
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    refused(model, "domain 'com.microsoft'; only those of ai.onnx")
    refused(model_of([helper.make_node("Relu", ["x"], ["y"], domain="evil")]), "'Relu' of domain 'evil'")


@pytest.mark.parametrize("operator", ["Loop", "If", "Scan", "RandomNormal", "ConstantOfShape", "Range", "StringConcat"])
def test_operators_off_the_list_are_refused(operator: str):
    assert operator not in ALLOWED_OPERATORS
    refused(model_of([helper.make_node(operator, ["x"], ["y"])]), f"'{operator}' is not on the list")


def test_the_list_can_be_narrowed():
    refused(linear(), "'Gemm' is not on the list", GraphLimits(operators=frozenset({"Relu"})))


def test_data_in_another_file_is_refused_in_weights_and_in_constants():
    outside = numpy_helper.from_array(BIAS, "w")
    outside.data_location = TensorProto.EXTERNAL
    outside.external_data.append(onnx.StringStringEntryProto(key="location", value="/etc/passwd"))
    relu = helper.make_node("Relu", ["x"], ["y"])
    refused(model_of([relu], [outside]), "'w' keeps its data in another file")
    refused(model_of([helper.make_node("Constant", [], ["y"], value=outside)]), "'w' keeps its data in another file")


def test_nested_graphs_functions_and_sparse_tensors_are_refused():
    node = helper.make_node("Relu", ["x"], ["y"])
    node.attribute.append(helper.make_attribute("body", linear().graph))
    refused(model_of([node]), "'Relu' with a nested 'body'")
    model = linear()
    model.functions.append(helper.make_function("own", "f", [], [], [], [helper.make_opsetid("", 18)]))
    refused(model, "functions or training graphs")
    model = linear()
    model.graph.sparse_initializer.append(onnx.SparseTensorProto())
    refused(model, "sparse tensors")


def test_a_tensor_has_the_bytes_that_its_shape_needs():
    model = linear()
    model.graph.initializer[0].raw_data += b"\0"
    refused(model, "'fc.weight' has 25 bytes, its shape needs 24")
    model = linear()
    model.graph.initializer[0].dims[0] = -1
    refused(model, r"'fc.weight' has shape \(-1, 3\)")
    model = linear()
    model.graph.initializer[0].dims[:] = [2**40, 2**40]
    refused(model, "'fc.weight' has shape")


def test_strings_and_complex_numbers_are_not_read():
    text = helper.make_tensor("s", TensorProto.STRING, [1], [b"a"])
    refused(model_of([helper.make_node("Relu", ["x"], ["y"])], [text]), "'s' has data type 8, which is not read")


def test_weights_that_are_not_numbers_are_refused():
    refused(linear(bias=np.array([np.inf, 0], np.float32)), "'fc.bias' holds NaN or infinity")


def test_a_name_defined_twice_is_refused():
    model = linear()
    model.graph.initializer.append(model.graph.initializer[0])
    refused(model, "'fc.weight' is defined twice")


def test_what_the_checker_of_onnx_refuses_is_refused_in_one_line():
    refused(model_of([helper.make_node("Relu", ["nowhere"], ["y"])]), "refused by the checker")


def test_a_name_that_is_not_text_is_refused():
    with pytest.raises(ModelError, match="not UTF-8"):
        parse_graph(GOOD.replace(b"fc.bias", b"fc.b\xffas"))


def test_an_attribute_that_the_checker_cannot_even_name_is_refused():
    """protobuf's own error has an empty text there, on some versions."""
    with pytest.raises(ModelError):
        check_graph(GOOD.replace(b"axis", b"\x80xis"))


def test_a_long_name_is_cut_in_the_message():
    model = linear()
    model.graph.node[0].op_type = "A" * 5000
    with pytest.raises(ModelError) as caught:
        check_graph(model.SerializeToString())
    assert len(str(caught.value)) < 300


def test_typed_lists_of_small_integers_are_read():
    tensor = helper.make_tensor("z", TensorProto.INT8, [3], [-1, 0, 127])
    assert tensor.int32_data
    assert tensor_bytes(tensor) == bytes([255, 0, 127])


@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_mutated_file_is_read_or_refused_and_never_anything_else(data: st.DataObject):
    raw = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    mutated = bytes(raw[:cut] if data.draw(st.booleans()) else raw)
    for use in (read_weights, lambda d: patch_weights(d, {"fc.bias": BIAS}, partial=True)):
        with contextlib.suppress(ModelError):  # whatever else comes out fails the test
            use(mutated)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
@example(b"\x08\x08")
def test_any_bytes_are_read_or_refused(data: bytes):
    with pytest.raises(ModelError):
        check_graph(data)


def test_parsing_alone_refuses_a_file_without_an_opset():
    with pytest.raises(ModelError, match="without a graph or without an opset"):
        parse_graph(b"\x08\x08")
