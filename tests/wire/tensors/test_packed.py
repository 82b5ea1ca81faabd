"""The quantized tensor."""

import numpy as np
import pytest

from core.errors import TensorError
from wire.tensors.packed import Packed

pytestmark = pytest.mark.light

SIGNS = np.array([[1, -1, 1], [-1, -1, 1]], np.int8)


def test_a_value_is_mean_plus_scale_times_level_per_output_channel():
    packed = Packed(bits=1, levels=SIGNS, scale=np.array([0.5, 2], np.float16), mean=np.array([0.25, -1], np.float16))
    values = packed.dequantize()
    assert values.dtype == np.float32
    assert values.tolist() == [[0.75, -0.25, 0.75], [-3, -3, 1]]


def test_one_scale_serves_the_whole_tensor_and_a_scalar_too():
    packed = Packed(bits=4, levels=np.array([[-7, 3]], np.int8), scale=np.array(0.5, np.float32), mean=None)
    assert packed.dequantize().tolist() == [[-3.5, 1.5]]
    scalar = Packed(bits=2, levels=np.array(-1, np.int8), scale=np.array(3, np.float16), mean=np.array(1, np.float16))
    assert scalar.dequantize().shape == ()
    assert float(scalar.dequantize()) == -2


def test_the_product_is_rounded_to_float32_before_the_mean_is_added():
    """float32(0.1) * 3 = 0.3000000119…: one rounding for the product, one for the sum, none in float64."""
    packed = Packed(
        bits=4, levels=np.array([3], np.int8), scale=np.array(0.1, np.float32), mean=np.array(1e-3, np.float32)
    )
    expected = np.float32(1e-3) + np.float32(0.1) * np.float32(3)
    assert packed.dequantize()[0] == expected


def test_packed_tensors_are_equal_by_value_and_dtype():
    def make(**changes):
        fields = {"bits": 1, "levels": SIGNS, "scale": np.ones(2, np.float16), "mean": None}
        return Packed(**(fields | changes))

    assert make() == make(levels=SIGNS.copy())
    assert make() != make(bits=2)
    assert make() != make(levels=-SIGNS)
    assert make() != make(scale=np.ones(2, np.float32))
    assert make() != make(mean=np.ones(2, np.float16))
    assert make(mean=np.ones(2, np.float16)) != make(mean=np.zeros(2, np.float16))
    assert make() != "make"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bits": 3}, "bits is 3, must be one of"),
        ({"levels": SIGNS.astype(np.int16)}, "levels are int16"),
        ({"levels": SIGNS.tolist()}, "levels are list"),
        ({"levels": 2 * SIGNS}, "1-bit levels must be -1 or 1"),
        ({"scale": 1.0}, "scale is float"),
        ({"scale": np.ones(2)}, "scale is float64"),
        ({"scale": np.ones(3, np.float16)}, r"scale is \(3,\), must be \(\) or \(2,\)"),
        ({"scale": np.ones((2, 1), np.float16)}, r"scale is \(2, 1\)"),
        ({"scale": np.array([1, np.nan], np.float16)}, "scale holds NaN or infinity"),
        ({"mean": np.ones(2, np.float32)}, "mean is float32"),
        ({"mean": np.array(1, np.float16)}, "must be like the scale"),
        ({"mean": np.array([1, np.inf], np.float16)}, "mean holds NaN or infinity"),
    ],
)
def test_what_the_wire_cannot_carry_is_refused_at_once(changes, message):
    fields = {"bits": 1, "levels": SIGNS, "scale": np.ones(2, np.float16), "mean": None}
    with pytest.raises(TensorError, match=message):
        Packed(**(fields | changes))


def test_a_scalar_has_no_channels():
    with pytest.raises(TensorError, match=r"scale is \(1,\)"):
        Packed(bits=1, levels=np.array(1, np.int8), scale=np.ones(1, np.float16), mean=None)
