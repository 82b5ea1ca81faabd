"""`.npz` without trust."""

import os
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from core.errors import DataError
from models.npz import array_shape, read_npy, read_npz
from models.samples import load_inputs, load_labels, load_samples


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


def header(descr: str, shape: str) -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text = text.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def write_members(path: Path, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)


X = header("'<f4'", "(2, 1)") + bytes(8)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (header("'<i8'", "(1000000000000,)") + bytes(16), "claims a shape of"),
        (header("'<i8'", "(2, 1000000000000000000000)") + bytes(16), "claims a shape of"),
        (header("'<i8'", "(4611686018427387904, 4, 0)") + bytes(16), "claims a shape of"),
        (header("'<i8'", "(-2,)") + bytes(16), "claims a shape of|not a readable"),
        (header("'<i8'", "(2,)") + bytes(9), "claims a shape of"),
        (header("'<i8'", "(2,)"), "claims a shape of"),
        (header("'|O'", "(2,)") + b"cos\nsystem\n(S'touch pwned'\ntR.", "holds object, not numbers"),
        (header("[('a', '|O')]", "(2,)") + bytes(16), "not numbers"),
        (header("'<U4'", "(1,)") + bytes(16), "not numbers"),
        (header("'<M8[s]'", "(2,)") + bytes(16), "not numbers"),
        (header("'<c16'", "(1,)") + bytes(16), "not numbers"),
        (header("'<f8'", "(2,)") + bytes(16), "one whole number per sample"),
        (header("'<i8'", "(2, 1)") + bytes(16), "one whole number per sample"),
        (header("'<i8'", "()") + bytes(8), "one whole number per sample"),
        (header("'<i8'", "(2,)") + b"\xff" * 16, "count the classes from 0"),
        (header("'<i8'", "(2,)") + b"\x7f" * 16, "count the classes from 0"),
        (header("'<i8'", "(" + "1," * 40 + ")") + bytes(8), "one whole number per sample|not a readable"),
        (b"\x93NUMPY\x09\x00" + bytes(80), "version|not a readable"),
        (b"\x93NUMPY\x01\x00\xff\xff{" + b"(" * 60_000, "not a readable"),
        (b"", "not a readable"),
    ],
)
def test_labels_that_are_none_are_refused_in_one_line(tmp_path: Path, y: bytes, words: str) -> None:
    path = tmp_path / "s.npz"
    write_members(path, x=X, y=y)
    for load in (load_labels, load_samples):
        with pytest.raises(DataError, match=words) as told:
            load(path)
        assert "\n" not in str(told.value)
        assert len(str(told.value)) < 500


def test_inputs_that_claim_more_than_there_is_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    write_members(path, x=header("'<f4'", "(1000000000000, 3, 32, 32)"), y=header("'<i8'", "(2,)") + bytes(16))
    assert len(load_labels(path)) == 2  # the inputs are not read for them
    for load in (load_samples, load_inputs):
        with pytest.raises(DataError, match="claims a shape of"):
            load(path)


def test_a_file_that_is_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    np.savez(path, x=np.zeros((4, 2), np.float32), y=np.arange(4))
    data = path.read_bytes()
    for end in range(0, len(data), 7):
        path.write_bytes(data[:end])
        with pytest.raises(DataError):
            load_samples(path)


def test_a_checksum_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    np.savez(path, x=np.zeros((4, 2), np.float32), y=np.arange(4))
    data = bytearray(path.read_bytes())
    data[data.index(np.arange(4).tobytes()) + 8] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="Bad CRC"):
        load_labels(path)


def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("y.npy", header("'<i8'", "(1,)") + bytes(8))
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("y.npy", header("'<i8'", "(1,)") + bytes(8))
    with pytest.raises(DataError, match="some of one name"):
        load_labels(path)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
@pytest.mark.parametrize("read", [read_npz, read_npy])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, make: Callable, read: Callable) -> None:
    make(tmp_path / "s.npz")
    with pytest.raises(DataError, match="not a file"):
        read(tmp_path / "s.npz")


def test_an_npy_is_read_with_the_same_care(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    for array in (np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3)), np.array(3)):
        np.save(path, array)
        assert np.array_equal(read_npy(path), array)
        assert read_npy(path).dtype == array.dtype
    for data in (header("'<f4'", "(1000000000000,)"), header("'|O'", "(1,)") + b"x", b"junk", b""):
        path.write_bytes(data)
        with pytest.raises(DataError):
            read_npy(path)


def test_a_compressed_bomb_does_not_take_the_memory_that_it_claims(tmp_path: Path) -> None:
    """400 MB of zeros in 2 MB, in a process that may have 300 MB; and by the bound, where there is memory enough."""
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("y.npy", "w") as member,
    ):
        member.write(header("'|i1'", "(400000000,)"))
        for _ in range(40):
            member.write(bytes(10**7))
    assert path.stat().st_size < 3_000_000
    with pytest.raises(DataError, match=r"its arrays take 400,000,128 bytes, the limit is 399,999,999"):
        read_npz(path, ("y",), limit=399_999_999)
    code = (
        "import sys; from pathlib import Path; from core.errors import DataError\n"
        "from models.samples import load_labels\n"
        "try: load_labels(Path(sys.argv[1]))\n"
        "except DataError as error: print(error, end=''); sys.exit(error.exit_code)"
    )
    limit = 300 * 2**20
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
    )
    assert done.returncode == DataError.exit_code, done.stderr
    assert "more memory than this process may have" in done.stdout
    assert "\n" not in done.stdout
    assert done.stderr == ""


def test_a_shape_is_read_without_the_array(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros((3, 1, 4)))
    assert array_shape(path, "x") == (3, 1, 4)
    assert array_shape(path, "y") == (0,)
    path.write_bytes(b"none")
    with pytest.raises(DataError, match=r"not a readable \.npz"):
        array_shape(path, "x")
