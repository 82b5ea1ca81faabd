"""Prefix, header, data and checksum of a message; and the safetensors file that it unfolds to."""

import json
import struct
import zlib

import numpy as np
import pytest

from core.errors import TensorError
from wire.tensors.entries import Entry, Limits
from wire.tensors.frame import DICTIONARY, frame, safetensors_file, unframe
from wire.tensors.header import write_columns

pytestmark = pytest.mark.light
ENTRIES = [Entry("b", 1, (2,)), Entry("w", 0x80, (2, 3))]  # a 1-bit tensor with one float16 scale
DATA = np.arange(7, dtype=np.uint8)  # b, w:scale, w


def test_a_frame_is_prefix_header_data_and_crc() -> None:
    message = frame(ENTRIES, [DATA], Limits())
    header = write_columns(ENTRIES)
    body = b"EST\x01\x00" + struct.pack("<I", len(header)) + header + DATA.tobytes()
    assert message == body + struct.pack("<I", zlib.crc32(body))
    entries, parts, data = unframe(message, Limits())
    assert list(entries) == ENTRIES
    assert [part.key for part in parts] == ["b", "w:scale", "w"]
    assert bytes(data) == DATA.tobytes()


def test_the_data_may_come_in_pieces() -> None:
    assert frame(ENTRIES, [DATA[:4], DATA[4:]], Limits()) == frame(ENTRIES, [DATA], Limits())


def test_names_of_usual_state_dicts_deflate_against_the_dictionary() -> None:
    entries = [Entry(name, 1, ()) for name in ("extractor.conv1.weight", "predictor.bias", "predictor.weight")]
    message = frame(entries, [np.zeros(6, np.uint8)], Limits())
    assert message[4] == 1
    (length,) = struct.unpack("<I", message[5:9])
    assert length < len(write_columns(entries)) // 2
    assert zlib.decompressobj(-15, DICTIONARY).decompress(message[9 : 9 + length]) == write_columns(entries)


def test_the_dictionary_is_the_one_that_others_inflate_with() -> None:
    assert zlib.crc32(DICTIONARY) == 0xCABF7532


def test_a_header_seen_before_is_held_to_the_limits_of_this_receiver() -> None:
    message = frame(ENTRIES, [DATA], Limits())
    unframe(message, Limits())
    with pytest.raises(TensorError, match="2 tensors, at most 1"):
        unframe(message, Limits(max_tensors=1))
    with pytest.raises(TensorError, match=f"message of {len(message)} bytes, at most {len(message) - 1}"):
        unframe(message, Limits(max_bytes=len(message) - 1))


def test_offsets_of_the_safetensors_file_are_rebuilt_and_its_data_aligned() -> None:
    file = safetensors_file(*unframe(frame(ENTRIES, [DATA], Limits()), Limits()))
    (length,) = struct.unpack("<Q", file[:8])
    assert length % 8 == 0
    described = json.loads(file[8 : 8 + length])
    assert {key: value["data_offsets"] for key, value in described.items() if key != "__metadata__"} == {
        "b": [0, 4],
        "w:scale": [4, 6],
        "w": [6, 7],
    }
    assert json.loads(described["__metadata__"]["w"]) == {"bits": 1, "shape": [2, 3]}
    assert file[8 + length :] == DATA.tobytes()
