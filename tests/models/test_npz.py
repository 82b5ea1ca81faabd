"""`.npz` without trust."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from models.npz import read_npz
from wire.errors import DataError


def test_arrays_come_back_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.arange(6).reshape(2, 3), y=np.array([1.5]))
    arrays = read_npz(path)
    assert (arrays["x"].tolist(), arrays["y"].tolist()) == ([[0, 1, 2], [3, 4, 5]], [1.5])


def test_objects_are_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="array 'x' holds object, not numbers"):
        read_npz(path)


def test_text_arrays_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.array(["a"]))
    with pytest.raises(DataError, match="array 'x' holds <U1, not numbers"):
        read_npz(path)


def test_a_shape_of_terabytes_allocates_nothing(tmp_path: Path) -> None:
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1099511627776,), }"
    header = header.ljust(117) + b"\n"
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(16))
    with pytest.raises(DataError, match=r"claims a shape of \(1099511627776,\), its bytes do not"):
        read_npz(path)


def test_a_bomb_is_refused_by_its_declared_size(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.zeros(1 << 20, np.uint8))
    assert path.stat().st_size < 5000
    with pytest.raises(DataError, match=r"its arrays take 1,048,.* bytes, the limit is 1,000,000"):
        read_npz(path, limit=1_000_000)


@pytest.mark.filterwarnings("ignore:Reading `.npy`:UserWarning")  # numpy's word on a header that it could mend
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_mutated_files_give_arrays_or_a_data_error_and_nothing_else(tmp_path: Path, save: Callable[..., None]) -> None:
    path = tmp_path / "a.npz"
    save(path, x=np.arange(40), y=np.zeros((2, 3), np.float32))
    original = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(600):
        data = bytearray(original)
        for at in rng.integers(len(data), size=rng.integers(1, 4)):
            data[at] = rng.integers(256)
        path.write_bytes(data[: rng.integers(1, len(data) + 1)] if rng.random() < 0.1 else data)
        try:
            arrays = read_npz(path)
        except DataError:
            refused += 1
        else:
            assert sum(array.nbytes for array in arrays.values()) <= len(original) * 2
    assert refused > 200


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 cut", b"plain text"])
def test_what_is_no_npz_says_so(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"a\.npz: not a readable \.npz"):
        read_npz(path)
