"""Reading, patching and compacting weights by name, on graphs built by hand."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from core.errors import ModelError
from quant.onnx.graph_check import parse_graph
from quant.onnx.integers.lowbit import default_low_bits
from quant.onnx.session import open_session, run_graph
from quant.onnx.weights import compact_weights, convert_low_bits, patch_weights, read_weights
from tests.quant.onnx.graphs import BIAS, WEIGHT, linear
from wire.tensors import Packed

pytestmark = pytest.mark.light

SIGNS = np.array([[1, -1, 1], [-1, -1, 1]], np.int8)
BINARY = Packed(bits=1, levels=SIGNS, scale=np.float16([0.5, 2]), mean=np.float16([0.25, -1]))
X = np.array([[1, 2, 4]], np.float32)


def halves(*values: float) -> np.ndarray:
    return np.array(values, np.float16)


def compact(weight: Packed = BINARY, **options) -> bytes:
    return compact_weights(linear().SerializeToString(), {"fc.weight": weight}, **options)


def test_float_weights_are_read_by_name():
    weights = read_weights(linear().SerializeToString())
    assert list(weights) == ["fc.weight", "fc.bias"]
    np.testing.assert_array_equal(weights["fc.weight"], WEIGHT)
    np.testing.assert_array_equal(weights["fc.bias"], BIAS)


def test_numbers_written_as_a_list_are_read_too():
    model = linear()
    model.graph.initializer[1].CopyFrom(helper.make_tensor("fc.bias", TensorProto.FLOAT, [2], [1.5, 2.5]))
    np.testing.assert_array_equal(read_weights(model.SerializeToString())["fc.bias"], [1.5, 2.5])


def test_a_compact_weight_computes_what_its_packed_form_says():
    y = run_graph(open_session(compact()), X)
    # row 0: .25 + .5 * (1, -1, 1) = (.75, -.25, .75); row 1: -1 + 2 * (-1, -1, 1) = (-3, -3, 1)
    np.testing.assert_array_equal(y, [[0.75 - 0.5 + 3 + 0.5, -3 - 6 + 4 - 0.5]])


def test_a_compact_weight_is_read_back_as_it_was_packed():
    weights = read_weights(compact())
    assert weights["fc.weight"] == BINARY
    assert weights.keys() == {"fc.weight", "fc.bias"}


@pytest.mark.parametrize(
    "weight",
    [
        Packed(bits=1, levels=SIGNS, scale=np.array(0.5, np.float16), mean=np.array(0.125, np.float16)),
        Packed(bits=1, levels=SIGNS, scale=np.array(0.1, np.float32)),
        Packed(bits=2, levels=SIGNS * np.int8([1, 0, 1]), scale=np.array([0.1, 0.2], np.float32)),
        Packed(bits=4, levels=SIGNS * np.int8(7), scale=np.array([0.1, 1e-8], np.float32)),
        Packed(bits=8, levels=SIGNS * np.int8(127), scale=np.array([0.1, 3e38 / 127], np.float32)),
    ],
    ids=["w1-per-tensor", "w1-no-mean", "w2", "w4", "w8"],
)
def test_every_kind_of_levels_survives(weight: Packed):
    data = compact(weight)
    assert read_weights(data)["fc.weight"] == weight
    eye = np.eye(3, dtype=np.float32)
    y = run_graph(open_session(patch_weights(data, {"fc.bias": np.zeros(2, np.float32)}, partial=True)), eye)
    np.testing.assert_array_equal(y.T, weight.dequantize())  # bit by bit: each logit is one weight


def test_the_bits_are_the_weights_not_the_storages():
    """Ternary levels without a zero are not mistaken for signs, nor signs in INT4 for 4-bit levels."""
    ternary = Packed(bits=2, levels=SIGNS, scale=halves(1, 1))
    assert read_weights(compact(ternary))["fc.weight"].bits == 2
    assert read_weights(compact(low_bits="int4"))["fc.weight"].bits == 1


@pytest.mark.parametrize(
    ("low_bits", "size", "opset", "ir"), [("int2", 2, 25, 13), ("int4", 3, 21, 10), ("int8", 6, 18, 8)]
)
def test_levels_are_stored_in_the_type_asked_for(low_bits: str, size: int, opset: int, ir: int):
    model = parse_graph(compact(low_bits=low_bits))
    (levels,) = [t for t in model.graph.initializer if t.name == "fc.weight:q1"]
    assert len(levels.raw_data) == size
    assert (model.opset_import[0].version, model.ir_version) == (opset, ir)
    assert "fc.weight" not in {t.name for t in model.graph.initializer}


def test_storage_can_be_changed_afterwards_in_both_directions():
    wide, narrow = compact(low_bits="int4"), compact(low_bits="int2")
    assert convert_low_bits(narrow, "int4") == wide
    assert convert_low_bits(wide, "int2") == narrow
    np.testing.assert_array_equal(*(run_graph(open_session(convert_low_bits(g, "int8")), X) for g in (wide, narrow)))


def test_the_default_storage_runs_here():
    model = parse_graph(compact())
    expected = {"int2": TensorProto.INT2, "int4": TensorProto.INT4, "int8": TensorProto.INT8}[default_low_bits()]
    assert [t.data_type for t in model.graph.initializer if t.name.endswith(":q1")] == [expected]


def test_patching_gives_the_file_that_exporting_would_have_given():
    other = Packed(bits=1, levels=-SIGNS, scale=halves(1, 4), mean=halves(0, 1))
    bias = np.array([7, 8], np.float32)
    expected = compact_weights(linear(bias=bias).SerializeToString(), {"fc.weight": other})
    assert patch_weights(compact(), {"fc.weight": other, "fc.bias": bias}) == expected


def test_patching_leaves_the_template_alone():
    template = compact()
    before = bytes(template)
    patch_weights(template, {"fc.bias": np.zeros(2, np.float32)}, partial=True)
    assert template == before


def test_a_float_weight_takes_half_floats_and_packed_values():
    data = patch_weights(linear().SerializeToString(), {"fc.weight": BINARY, "fc.bias": halves(0.5, 1.5)})
    weights = read_weights(data)
    np.testing.assert_array_equal(weights["fc.weight"], BINARY.dequantize())
    np.testing.assert_array_equal(weights["fc.bias"], [0.5, 1.5])
    assert weights["fc.bias"].dtype == np.float32


def test_full_precision_becomes_levels_only_on_demand():
    """Row 0: mean 2, c = (-1, 1, 0), m = 1/3, s = sqrt(2/3 / (8/9)) = 0.866, mu = 2 - s/3."""
    latent = {"fc.weight": np.array([[1, 3, 2], [-4, 4, 0]], np.float16), "fc.bias": BIAS}
    with pytest.raises(ModelError, match="is a float16 array, the ONNX template has 1-bit levels"):
        patch_weights(compact(), latent)
    weight = read_weights(patch_weights(compact(), latent, quantize=True))["fc.weight"]
    assert isinstance(weight, Packed)
    np.testing.assert_array_equal(weight.levels, [[-1, 1, 1], [-1, 1, 1]])
    np.testing.assert_allclose(weight.scale, [0.866, 3.464], rtol=1e-3)
    np.testing.assert_allclose(weight.mean, [2 - 0.866 / 3, -3.464 / 3], rtol=1e-3)
    assert patch_weights(compact(), {"fc.weight": BINARY, "fc.bias": BIAS}, quantize=True) == compact()


def test_a_scale_per_tensor_fits_a_template_per_channel_and_a_missing_mean_is_zero():
    flat = Packed(bits=1, levels=SIGNS, scale=np.array(3, np.float16))
    got = read_weights(patch_weights(compact(), {"fc.weight": flat}, partial=True))["fc.weight"]
    np.testing.assert_array_equal(got.dequantize(), flat.dequantize())


def test_the_counter_of_batch_norm_is_passed_over():
    tensors = {"fc.weight": BINARY, "fc.bias": BIAS, "bn.num_batches_tracked": np.array(3)}
    assert patch_weights(compact(), tensors) == compact()


W, B = "fc.weight", "fc.bias"


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({W: BINARY}, "'fc.bias' of the ONNX template is not given"),
        ({W: BINARY, B: BIAS, "fc.wieght": BIAS}, "'fc.wieght' is not in the ONNX template; did you mean 'fc.weight'"),
        ({W: BINARY, B: BIAS[:1]}, r"'fc.bias' is \(1,\), the ONNX template has \(2,\)"),
        ({W: BINARY, B: BIAS.astype(np.float64)}, "'fc.bias' is float64, the ONNX template has float32"),
        ({W: BINARY, B: np.array([1, np.nan], np.float32)}, "'fc.bias' holds NaN"),
        ({W: WEIGHT, B: BIAS}, "'fc.weight' is a float32 array, the ONNX template has 1-bit levels"),
        ({W: Packed(bits=2, levels=SIGNS, scale=halves(1, 1)), B: BIAS}, "'fc.weight' is 2-bit levels"),
        ({W: Packed(bits=1, levels=SIGNS.T, scale=halves(1, 1, 1)), B: BIAS}, r"'fc.weight' is \(3, 2\)"),
    ],
    ids=["missing", "unknown", "shape", "dtype", "nan", "not-packed", "bits", "packed-shape"],
)
def test_what_does_not_fit_the_template_is_named(tensors, message: str):
    with pytest.raises(ModelError, match=message):
        patch_weights(compact(), tensors)


def test_a_finer_scale_or_a_mean_that_the_template_has_no_place_for_is_refused():
    coarse = compact(Packed(bits=1, levels=SIGNS, scale=np.array(1, np.float16)))
    with pytest.raises(ModelError, match=r"'fc.weight' is scaled per channel, the ONNX template per tensor"):
        patch_weights(coarse, {W: Packed(bits=1, levels=SIGNS, scale=halves(1, 1))}, partial=True)
    with pytest.raises(ModelError, match=r"'fc.weight' has a mean, the ONNX template has none"):
        patch_weights(coarse, {W: BINARY}, partial=True)


def test_levels_written_into_after_packing_are_refused():
    weight = Packed(bits=1, levels=SIGNS.copy(), scale=halves(1, 1), mean=halves(0, 0))
    weight.levels[0, 0] = 0
    with pytest.raises(ModelError, match=r"'fc.weight'"):
        patch_weights(compact(), {W: weight}, partial=True)


def test_compacting_what_is_not_there_is_refused():
    with pytest.raises(ModelError, match=r"'fc.weigth' is not in the ONNX graph; did you mean 'fc.weight'"):
        compact_weights(linear().SerializeToString(), {"fc.weigth": BINARY})
    with pytest.raises(ModelError, match=r"'fc.bias' is \(2, 3\), the ONNX graph has \(2,\)"):
        compact_weights(linear().SerializeToString(), {"fc.bias": BINARY})


def test_levels_beyond_the_bits_in_the_name_are_refused():
    data = compact(Packed(bits=8, levels=SIGNS * np.int8(9), scale=halves(1, 1)))
    model = parse_graph(data)
    for t in model.graph.initializer:
        t.name = t.name.replace(":q8", ":q4")
    for node in model.graph.node:
        node.input[:] = [name.replace(":q8", ":q4") for name in node.input]
    with pytest.raises(ModelError, match=r"'fc.weight' in the ONNX graph"):
        read_weights(model.SerializeToString())


def test_the_file_passes_the_checker_of_onnx():
    onnx.checker.check_model(parse_graph(compact(low_bits="int2")), full_check=True)
