"""The samples that models are scored on."""

from pathlib import Path

import numpy as np
import pytest

from aggregator.storage.labelled_samples import load_validation
from core.errors import DataError

pytestmark = pytest.mark.light
X, Y = np.zeros((4, 1, 2, 2), np.float32), np.array([0, 1, 2, 1])


def saved(folder: Path, **arrays: np.ndarray) -> Path:
    np.savez(folder / "validation.npz", **arrays)
    return folder / "validation.npz"


def test_floats_and_token_ids_are_taken_as_they_are(tmp_path: Path) -> None:
    x, y = load_validation(saved(tmp_path, x=X + 0.5, y=Y.astype(np.uint8)), (1, 2, 2), 3)
    assert (x.dtype, x[0, 0, 0, 0], y.dtype, y.tolist()) == (np.float32, 0.5, np.int64, [0, 1, 2, 1])
    x, _ = load_validation(saved(tmp_path, x=np.ones((4, 7), np.int64), y=Y), (7,), 3)
    assert x.dtype == np.int64


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": X}, "no array 'y'"),
        ({"x": X[:, :, :1], "y": Y}, r"expected \(N, 1, 2, 2\)"),
        ({"x": X, "y": Y + 1}, "y must be whole numbers from 0 to 2"),
    ],
)
def test_what_does_not_fit_the_task_is_told(tmp_path: Path, arrays: dict, words: str) -> None:
    with pytest.raises(DataError, match=words):
        load_validation(saved(tmp_path, **arrays), (1, 2, 2), 3)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none.npz: No such file"):
        load_validation(tmp_path / "none.npz", (1, 2, 2), 3)
