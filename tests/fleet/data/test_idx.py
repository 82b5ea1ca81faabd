"""IDX files: bytes written by hand."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from core.errors import DataError
from fleet.data.idx import mnist_family, read_idx

TWO_IMAGES = bytes.fromhex("00000803 00000002 00000001 00000003") + bytes([1, 2, 3, 4, 5, 6])


def test_the_bytes_of_the_format(tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(TWO_IMAGES)
    assert read_idx(path, (2, 1, 3)).tolist() == [[[1, 2, 3]], [[4, 5, 6]]]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (TWO_IMAGES[:3] + b"\x01" + TWO_IMAGES[4:], "magic number 0x00000801, expected 0x00000803"),
        (b"\x00\x00\x0d\x03" + TWO_IMAGES[4:], "magic number 0x00000d03"),
        (TWO_IMAGES[:7] + b"\x09" + TWO_IMAGES[8:], r"holds an array of \(9, 1, 3\), expected \(2, 1, 3\)"),
        (TWO_IMAGES[:-1], "21 bytes, expected 22; it is cut short"),
        (TWO_IMAGES[:9], "magic number"),
        (b"", "magic number"),
        (TWO_IMAGES + b"\x00", "more than 22 bytes"),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(data))
    with pytest.raises(DataError, match=says):
        read_idx(path, (2, 1, 3))


def test_a_huge_size_in_the_header_allocates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(bytes.fromhex("00000803 ffffffff ffffffff ffffffff") + bytes(6))
    with pytest.raises(DataError, match="4294967295"):
        read_idx(path, (2, 1, 3))


def test_four_files_make_a_dataset(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("xt", "yt", "xs", "ys")]
    rng = np.random.default_rng(0)
    for (x, y), count in zip((paths[:2], paths[2:]), (3, 2), strict=True):
        pixels = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        x.write_bytes(b"\x00\x00\x08\x03" + np.array([count, 28, 28], ">u4").tobytes() + pixels.tobytes())
        y.write_bytes(b"\x00\x00\x08\x01" + np.array([count], ">u4").tobytes() + bytes(range(count)))
    data = mnist_family("mnist", paths, ("a", "b", "c"), sizes=(3, 2))
    assert (data.x_train.shape, data.y_train.tolist(), data.y_test.tolist()) == ((3, 1, 28, 28), [0, 1, 2], [0, 1])
    with pytest.raises(DataError, match="labels run from 0 to 2, expected 0 to 1"):
        mnist_family("mnist", paths, ("a", "b"), sizes=(3, 2))
