"""Which floats fit into half the bits."""

import numpy as np
import pytest

from core.errors import ConfigError
from quant.float16 import as_wire, check_floats

pytestmark = pytest.mark.light


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([1.0, 0.5], "f2"), ([0.0], "f2"), ([65504.0], "f2"), ([65505.0], "f4"), ([1e-6], "f4"), ([1.0, 1e-6], "f2")],
)
def test_halves_are_used_where_the_largest_number_is_a_normal_half(values: list[float], dtype: str) -> None:
    assert as_wire(np.array(values, np.float32), "fp16").dtype == np.dtype(dtype)


def test_fp32_and_integers_stay() -> None:
    assert as_wire(np.ones(2, np.float64), "fp32").dtype == np.float32
    assert as_wire(np.ones(2, np.int64), "fp16").dtype == np.int64


def test_other_floats_are_unknown() -> None:
    check_floats("fp16")
    with pytest.raises(ConfigError, match="known: fp16 fp32"):
        check_floats("bf16")
