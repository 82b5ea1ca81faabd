"""The storage byte, the parts of a tensor and their order: what the header implies and does not say."""

import pytest

from core.errors import TensorError
from wire.tensors.entries import CODES, DTYPES, ITEM_BYTES, PLAIN, Entry, Limits, check_entries, layout, packed_storage

pytestmark = pytest.mark.light


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("float32", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("mean", [False, True])
def test_the_storage_byte_tells_how_a_tensor_is_packed(bits: int, float32: bool, per_channel: bool, mean: bool) -> None:
    entry = Entry("w", packed_storage(bits, float32=float32, per_channel=per_channel, mean=mean), (3, 5))
    assert (entry.packed, entry.bits, entry.has_mean) == (True, bits, mean)
    levels, *scales = entry.parts()
    assert levels == ("w", "U8", ((15 * bits + 7) // 8,), (15 * bits + 7) // 8)
    shape, dtype = ((3,) if per_channel else ()), ("F32" if float32 else "F16")
    size = (3 if per_channel else 1) * (4 if float32 else 2)
    assert scales == [(f"w:{key}", dtype, shape, size) for key in ("scale", "mean")[: 1 + mean]]


def test_the_codes_of_dtypes_are_those_of_stored_messages() -> None:
    assert [str(DTYPES[name]) for name in PLAIN] == ["float32", "float16", "int8", "int32", "int64", "uint8"]
    assert list(CODES.values()) == list(range(6))
    assert {name: DTYPES[name].itemsize for name in PLAIN} == ITEM_BYTES


def test_wider_items_lie_first_so_that_each_is_aligned() -> None:
    packed = packed_storage(1, float32=True, per_channel=False, mean=True)
    entries = [
        Entry("a", 5, (3,)),
        Entry("b", 1, (1,)),
        Entry("c", 4, (1,)),
        Entry("d", 0, ()),
        Entry("p", packed, (9,)),
    ]
    parts = layout(entries)
    assert [part.key for part in parts] == ["c", "d", "p:mean", "p:scale", "b", "a", "p"]
    at = 0
    for part in parts:
        assert at % ITEM_BYTES[part.dtype] == 0
        at += part.size


def test_entries_at_the_limits_pass_and_one_more_does_not() -> None:
    entries = [Entry("a", 0, (2, 3)), Entry("b", 5, (4,))]
    check_entries(entries, Limits(max_values=10, max_tensors=2, max_name=1, max_dims=2))
    for narrower in (Limits(max_values=9), Limits(max_tensors=1), Limits(max_dims=1)):
        with pytest.raises(TensorError):
            check_entries(entries, narrower)


def test_names_are_ordered_by_their_utf8_bytes() -> None:
    check_entries([Entry("ｚ", 5, ()), Entry("𝐚", 5, ())], Limits())  # UTF-16 has them the other way round
    with pytest.raises(TensorError, match="'a': duplicate name, or names out of order"):
        check_entries([Entry("a", 5, ()), Entry("a", 5, ())], Limits())
