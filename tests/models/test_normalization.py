"""Mean and std of raw values: of the task first, then of the samples."""

from pathlib import Path

import numpy as np
import pytest

from models.normalization import normalization_of, normalize, told_by
from wire.messages import Task

pytestmark = pytest.mark.light
SHAPE = (3, 4, 4)
BYTES = np.zeros((2, *SHAPE), np.uint8)


def test_the_task_comes_first(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=BYTES, y=[0, 1], mean=1.0, std=2.0)
    task = Task(mean=(5.0, 6.0, 7.0), std=(2.0, 2.0, 2.0))
    assert normalization_of(task, tmp_path / "x.npz", SHAPE) == ((5.0, 6.0, 7.0), (2.0, 2.0, 2.0))
    assert normalization_of(Task(class_names=("a", "b")), tmp_path / "x.npz", SHAPE) == ((1.0,), (2.0,))


def test_stored_bytes_have_their_own_or_are_divided_by_255(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", x=BYTES, y=[0, 1], mean=np.float32([1, 2, 3]), std=np.float32([[4]]))
    assert normalization_of(None, tmp_path / "own.npz", SHAPE) == ((1.0, 2.0, 3.0), (4.0,))
    np.savez(tmp_path / "plain.npz", x=BYTES, y=[0, 1])
    assert normalization_of(None, tmp_path / "plain.npz", SHAPE) == ((0.0,), (255.0,))
    assert normalization_of(None, tmp_path, SHAPE) == ((0.0,), (255.0,))  # a folder of pictures
    assert normalization_of(Task(kind="image"), None, SHAPE) == ((0.0,), (255.0,))


def test_other_values_are_used_as_they_are(tmp_path: Path) -> None:
    np.savez(tmp_path / "floats.npz", x=BYTES.astype(np.float32), y=[0, 1])
    assert normalization_of(None, tmp_path / "floats.npz", SHAPE) is None
    assert normalization_of(Task(kind="series"), tmp_path / "x.csv", SHAPE) is None
    assert normalization_of(None, None, SHAPE) is None
    assert normalization_of(None, tmp_path, (6, 128)) is None  # a folder of windows


def test_bytes_are_divided_by_255_and_floats_left_alone_where_no_task_says_otherwise() -> None:
    for task in (None, Task(kind="image")):
        assert told_by(task, of_bytes=True) == ((0.0,), (255.0,))
        assert told_by(task, of_bytes=False) is None
    assert told_by(Task(mean=(1.0,), std=(2.0,)), of_bytes=False) == ((1.0,), (2.0,))
    assert normalize(np.full((1, 2), 255, np.uint8), (0.0,), (255.0,)).tolist() == [[1.0, 1.0]]


def test_one_number_per_channel_is_of_the_channels_axis() -> None:
    mean, std = (1.0, 2.0, 3.0), (2.0, 4.0, 8.0)
    batch = normalize(np.full((5, 3, 2, 2), 9, np.uint8), mean, std)
    assert (batch.dtype, batch[4, :, 1, 0].tolist()) == (np.float32, [4.0, 1.75, 0.75])
    assert normalize(np.full((3, 2, 2), 9, np.uint8), mean, std, axis=0).tolist() == batch[0].tolist()
    assert normalize(np.full((4, 6), 9, np.uint8), 1, 2).tolist() == [[4.0] * 6] * 4
    with pytest.raises(ValueError, match="broadcast"):
        normalize(np.zeros((5, 4, 2), np.float32), mean, std)
