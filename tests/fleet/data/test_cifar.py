"""CIFAR: archives and subsets, made small enough to read by eye."""

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import DataError
from fleet.data import cifar
from fleet.data.cifar import cifar_archive, cifar_subset

NAMES = ("a", "b", "c")


def record(*labels: int, red: int = 0) -> bytes:
    return bytes(labels) + bytes([red]) * 1024 + bytes([1]) * 1024 + bytes([2]) * 1024


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def load(path: Path, **changes: Any) -> Any:
    arguments: dict[str, Any] = {"train": ["d/one.bin", "d/two.bin"], "test": "d/test.bin", "records": 2, "labels": 1}
    return cifar_archive("cifar10", path, NAMES, **{**arguments, **changes})


TEST = record(1) * 10_000
TRAIN = {"d/one.bin": record(0, red=9) + record(1), "d/two.bin": record(2) + record(0)}


def test_records_are_channel_by_channel_and_files_in_order(tmp_path: Path) -> None:
    data = load(archive(tmp_path / "c.tar.gz", {"d/readme.html": b"hello", **TRAIN, "d/test.bin": TEST}))
    assert data.y_train.tolist() == [0, 1, 2, 0]
    assert data.x_train.shape == (4, 3, 32, 32)
    assert data.x_train[0, :, 5, 7].tolist() == [9, 1, 2]
    assert len(data.y_test) == 10_000


def test_the_last_label_byte_counts(tmp_path: Path) -> None:
    members = {"t": record(19, 2) + record(0, 1), "s": record(0, 1) * 10_000}
    data = load(archive(tmp_path / "c.tar.gz", members), train=["t"], test="s", labels=2)
    assert data.y_train.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"d/one.bin": TRAIN["d/one.bin"]}, r"no d/two\.bin inside"),
        ({**TRAIN, "d/test.bin": TEST[:-1]}, "has 30729999 bytes, expected 30730000"),
        ({"../d/one.bin": TRAIN["d/one.bin"], "/d/two.bin": TRAIN["d/two.bin"]}, r"no d/one\.bin inside"),
        ({**TRAIN, "d/one.bin": record(7) * 2, "d/test.bin": TEST}, "labels run from 0 to 7, expected 0 to 2"),
    ],
)
def test_wrong_members_are_refused(tmp_path: Path, members: dict[str, bytes], says: str) -> None:
    with pytest.raises(DataError, match=says):
        load(archive(tmp_path / "c.tar.gz", members))


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "c.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        info = tarfile.TarInfo("d/one.bin")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(info)
    with pytest.raises(DataError, match=r"no d/one\.bin inside"):
        load(path)


def test_an_archive_that_unpacks_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar, "_ARCHIVE_LIMIT", 1 << 20)
    path = archive(tmp_path / "c.tar.gz", {"zeros": bytes(4 << 20), **TRAIN})
    with pytest.raises(DataError, match="unpacks to more than 1,048,576 bytes"):
        load(path)


def test_a_cut_archive_says_so(tmp_path: Path) -> None:
    path = archive(tmp_path / "c.tar.gz", TRAIN)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match="damaged or cut short"):
        load(path)


def save(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)
    return path


def test_a_subset_is_turned_to_channels_first(tmp_path: Path) -> None:
    x = np.zeros((2, 32, 32, 3), np.uint8)
    x[0, 5, 7] = [9, 1, 2]
    data = cifar_subset("cifar100", save(tmp_path / "s.npz", x_train=x, y_train=np.array([1, 0], np.uint8)), NAMES)
    assert data.x_train[0, :, 5, 7].tolist() == [9, 1, 2]
    assert data.x_train.flags.c_contiguous
    assert (len(data.y_test), data.variant) == (0, "subset")


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"x_train": np.zeros((2, 32, 32, 3), np.uint8)}, "no array 'y_train'; it has x_train"),
        (
            {"x_train": np.zeros((2, 3, 32, 32), np.uint8), "y_train": np.zeros(2, int)},
            r"expected uint8 \(N, 32, 32, 3\)",
        ),
        ({"x_train": np.zeros((2, 32, 32, 3)), "y_train": np.zeros(2, int)}, "x_train is float64"),
        ({"x_train": np.zeros((2, 32, 32, 3), np.uint8), "y_train": np.zeros(3, int)}, "expected 2 integers"),
        ({"x_train": np.zeros((2, 32, 32, 3), np.uint8), "y_train": np.zeros(2)}, "y_train is float64"),
        ({"x_train": np.zeros((2, 32, 32, 3), np.uint8), "y_train": np.array([0, 3])}, "labels run from 0 to 3"),
    ],
)
def test_a_wrong_subset_is_refused(tmp_path: Path, arrays: dict[str, np.ndarray], says: str) -> None:
    with pytest.raises(DataError, match=says):
        cifar_subset("cifar10", save(tmp_path / "s.npz", **arrays), NAMES)
