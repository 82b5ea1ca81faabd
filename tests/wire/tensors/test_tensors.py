"""Named arrays to bytes and back."""

import struct
import zlib

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from core.errors import TensorError
from wire.tensors import Limits, Packed, Tensor, decode, encode, to_safetensors
from wire.tensors.frame import MAGIC

pytestmark = pytest.mark.light

DTYPES = (np.float32, np.float16, np.int8, np.int32, np.int64, np.uint8)
CHARACTERS = st.characters(exclude_categories=("C", "Z"), exclude_characters=":")
NAMES = st.text(CHARACTERS, min_size=1, max_size=12).filter(lambda name: name != "__metadata__")  # safetensors' own
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def reseal(body: bytes) -> bytes:
    """The bytes before the checksum, with the right one appended, so that the deeper checks are reached."""
    return body + struct.pack("<I", zlib.crc32(body))


def same(a: Tensor, b: Tensor) -> bool:
    if isinstance(a, Packed) or isinstance(b, Packed):
        return a == b
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()  # -0.0 differs from 0.0


def floats(dtype):
    width = 8 * np.dtype(dtype).itemsize
    return st.floats(allow_nan=False, allow_infinity=False, width=width)


@st.composite
def plain(draw: st.DrawFn) -> np.ndarray:
    dtype = draw(st.sampled_from(DTYPES))
    elements = floats(dtype) if np.dtype(dtype).kind == "f" else None
    return draw(hnp.arrays(dtype, SHAPES, elements=elements))


@st.composite
def packed(draw: st.DrawFn) -> Packed:
    bits, shape = draw(st.sampled_from([1, 2, 4, 8])), draw(SHAPES)
    top = max(1, 2 ** (bits - 1) - 1)
    level = st.sampled_from([-1, 1]) if bits == 1 else st.integers(-top, top)
    dtype = draw(st.sampled_from([np.float16, np.float32]))
    scale_shape = draw(st.sampled_from([(), shape[:1]]))
    scales = hnp.arrays(dtype, scale_shape, elements=floats(dtype))
    return Packed(
        bits=bits,
        levels=draw(hnp.arrays(np.int8, shape, elements=level)),
        scale=draw(scales),
        mean=draw(st.none() | scales),
    )


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(NAMES, plain() | packed(), max_size=5), st.randoms())
def test_tensors_come_back_bit_for_bit_and_dict_order_does_not_matter(tensors, random):
    data = encode(tensors)
    shuffled = list(tensors.items())
    random.shuffle(shuffled)
    assert encode(dict(shuffled)) == data
    back = decode(data)
    assert list(back) == sorted(tensors, key=str.encode)
    assert all(same(back[name], tensors[name]) for name in tensors)
    assert encode(back) == data


def test_the_bytes_of_a_tiny_message_are_these():
    tensors = {
        "w": Packed(
            bits=1,
            levels=np.array([[1, -1, 1]], np.int8),
            scale=np.array([2], np.float16),
            mean=np.array([1], np.float16),
        ),
        "b": np.array([1, -1], np.float32),
    }
    header = b"\x02\x00\x00b\nw\n\x00\x98\x01\x02\x02\x01\x03"
    data = b"\x00\x00\x80\x3f\x00\x00\x80\xbf\x00\x3c\x00\x40\x05"  # b, w:mean, w:scale, w
    body = b"EST\x01\x00\x0e\x00\x00\x00" + header + data
    assert encode(tensors) == body + struct.pack("<I", zlib.crc32(body))
    assert encode(tensors).hex() == (
        "45535401000e000000020000620a770a009801020201030000803f000080bf003c004005" + "b1b22ea2"
    )


def test_a_repeated_header_is_deflated_and_reads_back():
    tensors = {f"extractor.stage1.{i}.bn1.running_mean": np.full(1, i, np.uint8) for i in range(30)}
    data = encode(tensors)
    assert data[4] == 1
    assert len(data) < 30 + 13 + 120
    assert decode(data)["extractor.stage1.7.bn1.running_mean"].tolist() == [7]


def test_an_empty_message_is_a_message():
    assert decode(encode({})) == {}


def test_decoded_arrays_are_read_only():
    tensors = decode(encode({"a": np.zeros(2, np.float32), "w": sign_tensor(mean=True)}))
    w = tensors["w"]
    for array in (tensors["a"], w.levels, w.scale, w.mean):
        assert not array.flags.writeable


def test_decoded_arrays_are_aligned_and_outlive_the_message():
    arrays = {"a": np.array([1.5], np.float32), "b": np.array([7, -7], np.int64), "c": np.array([2], np.float16)}
    for start in range(8):  # wherever the message lies in memory
        message = bytearray(start) + encode(arrays)
        decoded = decode(memoryview(message)[start:])
        message[:] = bytes(len(message))
        assert all(same(decoded[name], array) for name, array in arrays.items())
        assert all(array.flags.aligned for array in decoded.values())


def test_a_header_that_was_read_before_says_nothing_of_the_data():
    first, second = (encode({"a": np.array(values, np.int8)}) for values in ([1, 2], [3, 4]))
    assert [decode(data)["a"].tolist() for data in (first, second, first)] == [[1, 2], [3, 4], [1, 2]]
    with pytest.raises(TensorError, match="describes 2 bytes of tensors, the message holds 1"):
        decode(reseal(first[:-5]))
    with pytest.raises(TensorError, match="absurd shape"):
        decode(first, limits=Limits(max_values=1))


def test_memory_order_and_byte_order_of_the_input_do_not_matter():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = encode({"a": a})
    assert encode({"a": np.asfortranarray(a)}) == expected
    assert encode({"a": a.astype(">f4")}) == expected
    assert encode({"a": np.repeat(a, 2, axis=1)[:, ::2]}) == expected


def test_the_message_unfolds_to_a_plain_safetensors_file(tmp_path):
    tensors = {"b": np.array([1, 2], np.float16), "w": sign_tensor(mean=False)}
    path = tmp_path / "state.safetensors"
    path.write_bytes(to_safetensors(encode(tensors)))
    with safetensors.safe_open(path, framework="numpy") as file:
        assert sorted(file.keys()) == ["b", "w", "w:scale"]
        assert file.metadata() == {"w": '{"bits":1,"shape":[2, 3]}'}
        assert file.get_tensor("b").tolist() == [1, 2]
        assert file.get_tensor("w").tolist() == [0b010101]


def sign_tensor(*, mean: bool) -> Packed:
    levels = np.array([[1, -1, 1], [-1, 1, -1]], np.int8)
    return Packed(bits=1, levels=levels, scale=np.ones(2, np.float16), mean=np.zeros(2, np.float16) if mean else None)


# ---- refusals on encode


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"x.w": np.array([1, np.nan], np.float32)}, "'x.w': it holds NaN"),
        ({"x.w": np.array(np.inf, np.float16)}, "'x.w': it holds NaN or infinity"),
        ({"x.w": np.ones(2)}, "'x.w': dtype float64 cannot be sent; use one of float32, float16"),
        ({"x.w": np.ones(2, bool)}, "'x.w': dtype bool"),
        ({"x.w": np.array([None])}, "'x.w': dtype object"),
        ({"x.w": [1.0]}, "'x.w': a list is neither"),
        ({"": np.ones(1, np.int8)}, "tensor '': a name is printable"),
        ({"a:scale": np.ones(1, np.int8)}, "'a:scale': a name"),
        ({"a\nb": np.ones(1, np.int8)}, "a name is printable"),
        ({"\ud800": np.ones(1, np.int8)}, "a name is printable"),
        ({"__metadata__": np.ones(1, np.int8)}, "'__metadata__'"),
        ({3: np.ones(1, np.int8)}, "tensor 3: a name is a string"),
        ({"n" * 201: np.ones(1, np.int8)}, "name of 201 bytes, at most 200"),
        ({"ü" * 101: np.ones(1, np.int8)}, "name of 202 bytes"),
        ({"x.w": np.ones((1,) * 9, np.int8)}, "'x.w': absurd shape"),
        ({f"t{i}": np.ones(1, np.int8) for i in range(4097)}, "4097 tensors, at most 4096"),
    ],
)
def test_encode_refuses_and_names_the_tensor(tensors, message):
    with pytest.raises(TensorError, match=message):
        encode(tensors)


def test_a_packed_tensor_spoiled_after_its_making_is_refused():
    spoiled = sign_tensor(mean=True)
    spoiled.levels[0, 0] = 0
    with pytest.raises(TensorError, match="'w': 1-bit levels must be -1 or 1"):
        encode({"w": spoiled})
    nan = sign_tensor(mean=True)
    nan.mean[1] = np.nan
    with pytest.raises(TensorError, match="'w': mean holds NaN"):
        encode({"w": nan})


def test_encode_keeps_to_the_limits_of_the_receiver():
    big = {"x.w": np.ones(100, np.float32)}
    with pytest.raises(TensorError, match=r"'x\.w': absurd shape"):
        encode(big, limits=Limits(max_values=99))
    with pytest.raises(TensorError, match=r"'y\.w': over 150 values"):
        encode(big | {"y.w": np.ones(51, np.int8)}, limits=Limits(max_values=150))
    with pytest.raises(TensorError, match=r"message of 4\d\d bytes, at most 300"):
        encode(big, limits=Limits(max_bytes=300))
    with pytest.raises(TensorError, match=r"header of \d+ bytes, at most 5"):
        encode(big, limits=Limits(max_header=5))


# ---- refusals on decode


@pytest.fixture(scope="module")
def small() -> bytes:
    return encode({"b": np.array([1, 2], np.float16), "w": sign_tensor(mean=True)})


def test_every_truncation_is_refused(small):
    for end in range(len(small)):
        with pytest.raises(TensorError):
            decode(small[:end])


def test_every_flip_of_one_bit_is_refused(small):
    for bit in range(8 * len(small)):
        flipped = bytearray(small)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(TensorError):
            decode(bytes(flipped))


def test_the_checksum_of_an_intact_message_is_not_looked_at_and_everything_else_is(small):
    other = small[:-4] + bytes(byte ^ 255 for byte in small[-4:])
    with pytest.raises(TensorError, match="checksum"):
        decode(other)
    assert decode(other, intact=True).keys() == decode(small).keys()
    with pytest.raises(TensorError, match="describes 13 bytes of tensors, the message holds 14"):
        decode(small + b"\0", intact=True)


def test_a_message_without_its_checksum_is_for_those_who_know_it_to_be_intact(small):
    bare = encode(decode(small), checksum=False)
    assert bare == small[:-4] + bytes(4)
    assert decode(bare, intact=True).keys() == decode(small).keys()
    with pytest.raises(TensorError, match="checksum"):
        decode(bare)


def test_bytes_after_the_end_are_refused(small):
    with pytest.raises(TensorError, match="checksum"):
        decode(small + b"\0")
    with pytest.raises(TensorError, match="describes 13 bytes of tensors, the message holds 14"):
        decode(reseal(small[:-4] + b"\0"))


def test_damage_is_told_from_another_format(small):
    with pytest.raises(TensorError, match="not a tensor message of version 1"):
        decode(b"EST\x02" + small[4:])
    with pytest.raises(TensorError, match="damaged or cut"):
        decode(small[:20] + b"?" + small[21:])


def message(header: bytes, data: bytes = b"", *, coding: int = 0, length: int | None = None) -> bytes:
    """A message around a header written by hand, with a valid checksum."""
    prefix = struct.pack("<4sBI", MAGIC, coding, len(header) if length is None else length)
    return reseal(prefix + header + data)


def one(name: bytes = b"x.w", storage: int = 5, dims: bytes = b"\x01\x02") -> bytes:
    return b"\x01\x00" + name + b"\n" + bytes([storage]) + dims


def test_the_header_written_by_hand_is_the_real_one():
    assert message(one(), b"\x07\x08") == encode({"x.w": np.array([7, 8], np.uint8)})


HUGE = b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"  # varint 2**63 - 1


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (message(one(storage=6), b"\0\0"), "'x.w': unknown dtype code 6"),
        (message(one(storage=0x7F), b"\0\0"), "'x.w': unknown dtype code 127"),
        (message(one(storage=0xA0), b"\0\0\0"), "'x.w': unknown packing 0xa0"),
        (message(one(storage=0xC0), b"\0\0\0"), "'x.w': unknown packing"),
        (message(one(storage=0x88, dims=b"\0"), b"\0\0"), "'x.w': a scalar has no channels"),
        (message(one(dims=b"\x01\x03"), b"\0\0"), "describes 3 bytes of tensors, the message holds 2"),
        (message(one(dims=b"\x01" + HUGE), b"\0\0"), "'x.w': absurd shape"),
        (message(one(dims=b"\x02" + HUGE + HUGE), b"\0\0"), "'x.w': absurd shape"),
        (message(one(dims=b"\x02\x00" + HUGE)), "'x.w': absurd shape"),
        (message(one(dims=b"\x03" + b"\x80\x80\x04" * 3)), "'x.w': over 134217728 values"),
        (message(one(dims=b"\x01\xff" + HUGE)), "'x.w': a number of more than 63 bits"),
        (message(one(dims=b"\x09" + b"\x01" * 9), b"\0"), "'x.w': 9 dimensions, at most 8"),
        (message(one(dims=b"\x01\x82\x00"), b"\0\0"), "not in its canonical form"),
        (message(one(dims=b"\x01")), "'x.w': header breaks off within a number"),
        (message(one() + b"\0", b"\0\0"), "header: 1 bytes too many"),
        (message(one(name=b"")), "name is printable"),
        (message(one(name=b"a:b"), b"\0\0"), "'a:b': a name"),
        (message(one(name=b"\xff"), b"\0\0"), "not UTF-8"),
        (message(one(name=b"x" * 201), b"\0\0"), "names break off at the first one"),
        (message(b"\x01\x01x\n\x05\x00", b"\0"), "names break off at the first one"),
        (message(b"\x02\x00\x01a\n\n\x05\x05\x00\x00", b"\0\0"), "'a': duplicate name"),
        (message(b"\x02\x00\x00b\na\n\x05\x05\x00\x00", b"\0\0"), "'a': duplicate name, or names out of order"),
        (message(b"\x02\x00\x00aa\nab\n\x05\x05\x00\x00", b"\0\0"), "not in its canonical form"),
        (message(b"\x02\x00\x00a\nb\n\x05"), "ends within the storage column"),
        (message(b"\x81\x20"), "4097 tensors, at most 4096"),
        (message(b""), "breaks off within a number"),
        (message(one(), b"\0\0", coding=2), "unknown header coding 2"),
        (message(one(), b"\0\0", coding=1), "does not inflate|breaks off"),
        (message(one(), b"\0\0", length=1000), "header of 1000 bytes does not fit"),
        (message(one(storage=1, dims=b"\0"), b"\x00\x7e"), "'x.w': it holds NaN"),
        (message(one(storage=0, dims=b"\0"), b"\x00\x00\x80\x7f"), "'x.w': it holds NaN or infinity"),
        (message(one(storage=0x80), b"\x00\x7c" + b"\x00"), "'x.w': scale holds NaN or infinity"),
        (message(one(storage=0x90), b"\x00\x7c\x00\x3c" + b"\x00"), "'x.w': mean holds NaN"),
        (message(one(storage=0x80), b"\x00\x3c" + b"\x04"), "'x.w': the filling bits"),
        (message(one(storage=0x82, dims=b"\x01\x01"), b"\x00\x3c" + b"\x08"), "'x.w': unused 4-bit code -8"),
        (message(one(storage=0x83, dims=b"\x01\x01"), b"\x00\x3c" + b"\x80"), "'x.w': unused 8-bit code -128"),
    ],
)
def test_decode_refuses_and_names_the_tensor(data, text):
    with pytest.raises(TensorError, match=text):
        decode(data)


def test_a_deflated_header_must_end_where_it_says():
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    deflated = deflater.compress(one()) + deflater.flush()
    assert decode(message(deflated, b"\x07\x08", coding=1))["x.w"].tolist() == [7, 8]
    with pytest.raises(TensorError, match="followed by other bytes"):
        decode(message(deflated + b"\0", b"\x07\x08", coding=1))
    with pytest.raises(TensorError, match="breaks off"):
        decode(message(deflated[:-1], b"\x07\x08", coding=1))


def test_a_header_that_inflates_without_end_is_cut_at_the_limit():
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = deflater.compress(bytes(50_000_000)) + deflater.flush()
    assert len(bomb) < 50_000
    with pytest.raises(TensorError, match="header: over 1048576 bytes"):
        decode(message(bomb, coding=1))


def test_the_receiver_may_set_narrower_limits(small):
    for limits in (Limits(max_bytes=10), Limits(max_values=7), Limits(max_header=5), Limits(max_tensors=1)):
        with pytest.raises(TensorError):
            decode(small, limits=limits)
    assert set(decode(small, limits=Limits(max_values=8, max_tensors=2, max_name=1))) == {"b", "w"}


# ---- size


def test_a_one_bit_resnet20_state_is_25_times_smaller_than_its_float32_file(resnet20_w1):
    tensors, twin = resnet20_w1
    data = encode(tensors)
    payload = sum(t.nbytes if isinstance(t, np.ndarray) else bytes_of(t) for t in tensors.values())
    assert len(data) - payload < 250
    assert len(safetensors.numpy.save(twin)) / len(data) > 25


def bytes_of(packed: Packed) -> int:
    mean = 0 if packed.mean is None else packed.mean.nbytes
    return (packed.levels.size + 7) // 8 + packed.scale.nbytes + mean
