"""The columns of a header, byte for byte, and that a header has one form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import TensorError
from wire.tensors.entries import Entry, Limits
from wire.tensors.header import read_columns, write_columns

pytestmark = pytest.mark.light
NAMES = st.sets(st.text("ab.ü", min_size=1, max_size=6), max_size=8)


def test_columns_are_count_shared_names_storage_dims() -> None:
    entries = [Entry("fc.bias", 1, (300,)), Entry("fc.weight", 0x88, (300, 2)), Entry("n", 4, ())]
    assert write_columns(entries) == (
        b"\x03"  # tensors
        b"\x00\x03\x00"  # bytes shared with the name before
        b"fc.bias\nweight\nn\n"
        b"\x01\x88\x04"  # storage
        b"\x01\xac\x02" + b"\x02\xac\x02\x02" + b"\x00"  # dimensions; 300 is 0xac 0x02
    )


@given(NAMES, st.data())
def test_entries_come_back_as_they_were(names: set[str], data: st.DataObject) -> None:
    shapes = st.lists(st.integers(0, 200), max_size=3).map(tuple)
    entries = [
        Entry(name, data.draw(st.integers(0, 5)), data.draw(shapes)) for name in sorted(names, key=lambda n: n.encode())
    ]
    assert read_columns(write_columns(entries), Limits()) == entries


def test_a_long_shared_prefix_is_counted_up_to_255() -> None:
    entries = [Entry("n" * 300 + end, 5, ()) for end in "ab"]
    raw = write_columns(entries)
    assert raw[1:3] == bytes([0, 255])
    assert read_columns(raw, Limits(max_name=301)) == entries


def test_every_truncation_is_refused() -> None:
    raw = write_columns([Entry("fc.bias", 1, (300,)), Entry("fc.weight", 0, (300, 2))])
    for end in range(len(raw)):
        with pytest.raises(TensorError):
            read_columns(raw[:end], Limits())


def test_a_name_that_shares_less_than_it_could_is_not_canonical() -> None:
    with pytest.raises(TensorError, match="canonical"):
        read_columns(b"\x02\x00\x00aa\nab\n\x05\x05\x00\x00", Limits())
    assert [e.name for e in read_columns(b"\x02\x00\x01aa\nb\n\x05\x05\x00\x00", Limits())] == ["aa", "ab"]
