"""Dense bit arrays of small integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.tensors.bits import BITS, check_levels, pack_levels, packed_size, unpack_levels

pytestmark = pytest.mark.light


def i8(*values: int) -> np.ndarray:
    return np.array(values, np.int8)


@st.composite
def levels_of_some_width(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    bits = draw(st.sampled_from(BITS))
    top = 2 ** (bits - 1) - 1
    values = st.sampled_from([-1, 1]) if bits == 1 else st.integers(-top, top)
    return np.array(draw(st.lists(values, max_size=40)), np.int8), bits


@given(levels_of_some_width())
def test_levels_come_back_as_they_were(case):
    levels, bits = case
    check_levels(levels, bits)
    packed = pack_levels(levels, bits)
    assert packed.dtype == np.uint8
    assert packed.size == packed_size(levels.size, bits)
    back = unpack_levels(packed, bits, levels.size)
    assert back.dtype == np.int8
    assert back.tolist() == levels.tolist()


@pytest.mark.parametrize(
    ("bits", "levels", "expected"),
    [
        (1, i8(1, -1, -1, 1, 1, 1, 1, 1, -1, 1), [0b11111001, 0b10]),
        (2, i8(1, -1, 0, 1, -1), [0b01_00_11_01, 0b11]),
        (4, i8(7, -7, -1), [0x97, 0x0F]),
        (8, i8(127, -127), [0x7F, 0x81]),
    ],
)
def test_the_first_level_is_in_the_lowest_bits(bits, levels, expected):
    assert pack_levels(levels, bits).tolist() == expected


def test_a_matrix_is_packed_row_by_row_whatever_its_memory_order():
    rows = np.array([[1, -1, -1], [1, 1, -1]], np.int8)
    assert pack_levels(rows, 1).tolist() == pack_levels(np.asfortranarray(rows), 1).tolist() == [0b011001]


@pytest.mark.parametrize(("bits", "bad"), [(1, 0), (1, 2), (1, -128), (2, 2), (2, -2), (4, 8), (4, -8), (8, -128)])
def test_a_level_that_does_not_fit_is_refused(bits, bad):
    with pytest.raises(ValueError, match=f"{bits}-bit levels must"):
        check_levels(i8(1, bad), bits)


@pytest.mark.parametrize(
    ("bits", "packed", "count"), [(1, [0b1000], 3), (1, [0, 2], 9), (2, [0b0100_0000], 3), (4, [0x10], 1)]
)
def test_a_filling_bit_that_is_set_is_refused(bits, packed, count):
    with pytest.raises(ValueError, match="filling bits"):
        unpack_levels(np.array(packed, np.uint8), bits, count)


@pytest.mark.parametrize(("bits", "packed"), [(2, 0b10), (4, 0x08), (8, 0x80)])
def test_the_unused_code_is_refused(bits, packed):
    with pytest.raises(ValueError, match="unused"):
        unpack_levels(np.array([packed], np.uint8), bits, 1)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_an_array_of_another_length_is_refused(size):
    with pytest.raises(ValueError, match=f"take 2 bytes, found {size}"):
        unpack_levels(np.zeros(size, np.uint8), 1, 9)
