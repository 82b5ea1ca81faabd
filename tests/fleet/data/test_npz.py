"""A user's `.npz`."""

from pathlib import Path

import numpy as np
import pytest

from core.errors import DataError
from fleet.data import load

Y = np.arange(10) % 2


def saved(tmp_path: Path, **arrays: np.ndarray) -> Path:
    path = tmp_path / "own.npz"
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize(
    ("shape", "becomes"),
    [((10, 4, 5), (1, 4, 5)), ((10, 3, 4, 5), (3, 4, 5)), ((10, 4, 5, 3), (3, 4, 5)), ((10, 4, 5, 1), (1, 4, 5))],
)
def test_images_become_channels_first(tmp_path: Path, shape: tuple[int, ...], becomes: tuple[int, ...]) -> None:
    data = load(saved(tmp_path, x=np.zeros(shape, np.uint8), y=Y))
    assert (data.kind, data.input_shape, data.name) == ("image", becomes, "own.npz")
    assert len(data.y_test) == 2


def test_pixels_keep_their_place(tmp_path: Path) -> None:
    x = np.zeros((10, 4, 5, 3), np.uint8)
    x[:, 1, 2] = [7, 8, 9]
    assert load(saved(tmp_path, x=x, y=Y)).x_train[0, :, 1, 2].tolist() == [7, 8, 9]


def test_a_test_part_is_used_as_it_is(tmp_path: Path) -> None:
    x = np.zeros((10, 3), np.float64)
    data = load(saved(tmp_path, x_train=x, y_train=Y, x_test=x[:4], y_test=Y[:4]))
    assert (data.kind, data.x_train.dtype, len(data.y_train), len(data.y_test)) == ("features", np.float32, 10, 4)


def test_integers_with_a_vocabulary_are_token_ids(tmp_path: Path) -> None:
    data = load(saved(tmp_path, x=np.ones((10, 3), np.int32), y=Y, vocab=np.array(5)))
    assert (data.kind, data.vocab, data.x_train.dtype) == ("text", 5, np.int64)


def test_labels_of_any_value_are_renumbered(tmp_path: Path) -> None:
    data = load(saved(tmp_path, x=np.zeros((10, 3)), y=np.where(Y, 100, -7)))
    assert data.class_names == ("-7", "100")


IMAGES = np.zeros((10, 4, 5), np.uint8)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"images": IMAGES, "y": Y}, "no array 'x_train' among images, y; save x_train and y_train"),
        ({"x": IMAGES}, "no array 'y'"),
        ({"x": IMAGES, "y": Y[:9]}, r"y is int64 \(9,\), expected 10 integers"),
        ({"x": IMAGES, "y": Y * 0.5}, "y is float64"),
        ({"x": IMAGES[:0], "y": Y[:0]}, "array 'x' is empty"),
        ({"x": IMAGES.astype(np.int32), "y": Y}, "x is int32; save images as uint8"),
        ({"x": np.zeros((10, 4, 5, 2), np.uint8), "y": Y}, r"x has shape \(10, 4, 5, 2\)"),
        ({"x": np.full((10, 3), np.nan), "y": Y}, "train sample 0 holds NaN"),
        ({"x": np.full((10, 3), 1e300), "y": Y}, "train sample 0 holds NaN or infinity"),
        ({"x": np.zeros((10, 3)), "y": Y, "vocab": np.array(5)}, "token ids are integers"),
        ({"x": np.full((10, 3), 5), "y": Y, "vocab": np.array(5)}, r"token ids leave 0 \.\. 4"),
        ({"x": np.ones((10, 3), int), "y": Y, "vocab": np.array(1.5)}, "vocab must be one integer"),
        ({"x_train": IMAGES, "y_train": Y, "x_test": IMAGES[:, :2], "y_test": Y}, "both parts need one shape"),
    ],
)
def test_what_is_no_such_layout_is_refused(tmp_path: Path, arrays: dict[str, np.ndarray], says: str) -> None:
    with pytest.raises(DataError, match=says):
        load(saved(tmp_path, **arrays))


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        load(tmp_path / "none.npz")
