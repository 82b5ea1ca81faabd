"""2-, 4- and 8-bit levels as ONNX stores them."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper

from core.errors import ModelError
from quant.onnx.integers.lowbit import STORAGES, default_low_bits, levels_of, levels_tensor, storage_for

pytestmark = pytest.mark.light


def test_the_first_level_is_in_the_lowest_bits():
    levels = np.array([1, -1, 0, -2, 1], np.int8)  # 01 11 00 10 | 01
    assert levels_tensor("w", levels, STORAGES["int2"]).raw_data == bytes([0b10_00_11_01, 0b01])
    assert levels_tensor("w", levels, STORAGES["int4"]).raw_data == bytes([0xF1, 0xE0, 0x01])
    assert levels_tensor("w", levels, STORAGES["int8"]).raw_data == bytes([1, 255, 0, 254, 1])


@pytest.mark.parametrize("name", list(STORAGES))
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 3, 1, 2), (0, 4)])
def test_levels_come_back_and_onnx_reads_the_same(name: str, shape: tuple[int, ...]):
    storage = STORAGES[name]
    low, high = -(2 ** (storage.bits - 1)), 2 ** (storage.bits - 1)
    levels = np.random.default_rng(0).integers(low, high, shape).astype(np.int8)
    tensor = levels_tensor("w", levels, storage)
    back = levels_of(tensor)
    assert back.dtype == np.int8
    np.testing.assert_array_equal(back, levels)
    np.testing.assert_array_equal(numpy_helper.to_array(tensor).astype(np.int8), levels)


def test_bits_go_to_the_narrowest_storage_that_is_allowed():
    chosen = {(bits, low): storage_for(bits, low).bits for bits in (1, 2, 4, 8) for low in ("int2", "int4", "int8")}
    assert [chosen[b, "int2"] for b in (1, 2, 4, 8)] == [2, 2, 4, 8]
    assert [chosen[b, "int4"] for b in (1, 2, 4, 8)] == [4, 4, 4, 8]
    assert [chosen[b, "int8"] for b in (1, 2, 4, 8)] == [8, 8, 8, 8]


def test_the_runtime_is_asked_what_it_runs():
    release = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
    if release == (1, 23):
        assert default_low_bits() == "int4"
    if release >= (1, 31):
        assert default_low_bits() == "int2"


def test_a_float_tensor_holds_no_levels():
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1], raw_data=b"\0\0\0\0")
    with pytest.raises(ModelError, match="'w' has data type 1, expected INT2"):
        levels_of(tensor)
