"""Labelled samples on disk: what is read, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from core.errors import DataError
from models.samples import load_labels, load_samples

pytestmark = pytest.mark.light


def write(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)
    return path


def test_float32_is_used_as_it_is(tmp_path: Path) -> None:
    x = np.array([[0.5, -1.0], [2.0, 3.0]], np.float32)
    samples = load_samples(write(tmp_path / "s.npz", x=x, y=[1, 0]))
    assert samples.x.tobytes() == x.tobytes()
    assert samples.y.dtype == np.int64


def test_bytes_are_normalised_by_the_mean_and_std_of_each_channel(tmp_path: Path) -> None:
    x = np.array([[[[10]], [[30]]]], np.uint8)  # (1, 2, 1, 1)
    path = write(tmp_path / "s.npz", x=x, y=[0], mean=[2.0, 10.0], std=[4.0, 5.0])
    assert load_samples(path).x.ravel().tolist() == [2.0, 4.0]


def test_bytes_without_mean_and_std_lie_between_0_and_1(tmp_path: Path) -> None:
    path = write(tmp_path / "s.npz", x=np.array([[0, 255]], np.uint8), y=[0])
    assert load_samples(path).x.tolist() == [[0.0, 1.0]]


def test_token_ids_stay_whole_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "s.npz", x=np.array([[3, 4]], np.int32), y=[0])
    assert load_samples(path).x.dtype == np.int64


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.zeros((2, 1), np.float32)}, "no array 'y'"),
        ({"y": [0, 1]}, "no array 'x'"),
        ({"x": np.zeros((3, 1), np.float32), "y": [0, 1]}, "one input per label"),
        ({"x": np.zeros((2, 1), np.float64), "y": [0, 1]}, "float64"),
        ({"x": np.full((2, 1), np.nan, np.float32), "y": [0, 1]}, "NaN"),
        ({"x": np.zeros((2, 1), np.float32), "y": [0.5, 1.0]}, "one whole number per sample"),
        ({"x": np.zeros((2, 1), np.float32), "y": [-1, 0]}, "count the classes from 0"),
        ({"x": np.zeros((0, 1), np.float32), "y": np.zeros(0, int)}, "one whole number per sample"),
        ({"x": np.zeros((2, 3, 2, 2), np.uint8), "y": [0, 1], "mean": [1.0, 2.0], "std": 1.0}, "per channel"),
        ({"x": np.zeros((2, 1), np.uint8), "y": [0, 1], "mean": 0.0, "std": 0.0}, "std not 0"),
        ({"x": np.zeros((2, 1), np.float32), "y": np.array([{}, {}], object)}, "holds object, not numbers"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_cannot_be_trained_on_is_refused(tmp_path: Path, arrays: dict, words: str) -> None:
    path = write(tmp_path / "s.npz", **arrays)
    with pytest.raises(DataError, match=words):
        load_samples(path)


def test_files_that_are_no_npz_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        load_labels(tmp_path / "absent.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(DataError, match="not a readable"):
        load_labels(tmp_path / "text.npz")
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(DataError, match="File is not a zip file"):
        load_labels(tmp_path / "one.npy")


def test_what_is_no_numpy_file_is_called_so_and_nobody_is_told_to_trust_it(tmp_path: Path) -> None:
    (tmp_path / "junk.npz").write_bytes(b"junk")
    with pytest.raises(DataError, match=r"junk\.npz: not a readable \.npz \(File is not a zip file\)") as told:
        load_samples(tmp_path / "junk.npz")
    assert "pickle" not in str(told.value)
