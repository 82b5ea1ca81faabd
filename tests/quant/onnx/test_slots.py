"""Where a weight lives in a graph, and what may be written there."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from core.errors import ModelError
from quant.onnx.integers.lowbit import STORAGES
from quant.onnx.slots import Slot, dequantize_nodes, find_slots, packed_initializers
from tests.quant.onnx.graphs import WEIGHT, linear, model_of
from wire.tensors import Packed

pytestmark = pytest.mark.light
SIGNS = np.array([[1, -1, 1], [-1, -1, 1]], np.int8)
GEMM = helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)


def packed(*, mean: bool = True) -> Packed:
    half = np.array([0.5, 2.0], np.float16)
    return Packed(bits=1, levels=SIGNS, scale=half, mean=half / 4 if mean else None)


def graph(weight: Packed) -> onnx.ModelProto:
    parts = list(packed_initializers("w", weight, STORAGES["int8"]))
    return model_of([*dequantize_nodes("w", weight), GEMM], parts)


def slot(model: onnx.ModelProto, name: str = "w") -> Slot:
    (found,) = [s for s in find_slots(model) if s.name == name]
    return found


@pytest.mark.parametrize("mean", [False, True])
def test_a_quantized_weight_is_one_slot_and_comes_back(mean: bool) -> None:
    model = graph(packed(mean=mean))
    assert [s.name for s in find_slots(model)] == ["w"]
    assert slot(model).read() == packed(mean=mean)


def test_a_scale_is_read_as_float16_only_where_that_loses_nothing() -> None:
    for value, dtype in ((0.5, np.float16), (0.1, np.float32), (1e6, np.float32), (1e-9, np.float32)):
        weight = Packed(bits=1, levels=SIGNS, scale=np.array(value, np.float32))
        read = slot(graph(weight)).read()
        assert isinstance(read, Packed)
        assert read.scale.dtype == dtype
        assert float(read.scale) == np.float32(value)


def test_writing_changes_what_is_read() -> None:
    model = graph(packed())
    other = Packed(bits=1, levels=-SIGNS, scale=np.array([1, 3], np.float16), mean=np.array([0, 1], np.float16))
    slot(model).write(other)
    assert slot(model).read() == other


def test_a_float_slot_takes_float32_float16_and_the_values_of_levels() -> None:
    model = linear()
    for value in (WEIGHT + 1, WEIGHT.astype(np.float16), packed()):
        slot(model, "fc.weight").write(value)
        expected = value.dequantize() if isinstance(value, Packed) else value
        np.testing.assert_array_equal(slot(model, "fc.weight").read(), expected)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (WEIGHT.T, r"is \(3, 2\), the ONNX template has \(2, 3\)"),
        (WEIGHT.astype(np.float64), "is float64, the ONNX template has float32"),
        (WEIGHT * np.float32(np.inf), "holds NaN or infinity"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_and_nothing_is_written(value: np.ndarray, words: str) -> None:
    model = linear()
    with pytest.raises(ModelError, match=words):
        slot(model, "fc.weight").write(value)
    np.testing.assert_array_equal(slot(model, "fc.weight").read(), WEIGHT)


def test_levels_of_other_bits_do_not_fit() -> None:
    with pytest.raises(ModelError, match="is 4-bit levels, the ONNX template has 1-bit levels"):
        slot(graph(packed())).write(Packed(bits=4, levels=SIGNS, scale=np.array(1, np.float16)))
    with pytest.raises(ModelError, match="is a float32 array, the ONNX template has 1-bit levels"):
        slot(graph(packed())).write(WEIGHT)


def test_a_name_alone_does_not_make_a_weight() -> None:
    """An initializer `w:q1` beside a graph that does something else with it is refused."""
    levels, scale = numpy_helper.from_array(SIGNS, "w:q1"), numpy_helper.from_array(np.ones((), np.float32), "w:scale")
    cast = helper.make_node("Cast", ["w:q1"], ["w"], to=TensorProto.FLOAT)
    swapped = helper.make_node("DequantizeLinear", ["w:scale", "w:q1"], ["w"])
    for node in (cast, swapped):
        with pytest.raises(ModelError, match="'w' in the ONNX graph is not dequantized as the names"):
            find_slots(model_of([node, GEMM], [levels, scale]))
