"""A task, applied to samples."""

import subprocess
import sys

import numpy as np
import pytest

from core.errors import EnvelopeError
from wire.messages import Task
from wire.task import check_task, class_label, scaling

pytestmark = pytest.mark.light


def test_bytes_are_divided_by_255_and_floats_left_alone_where_no_task_says_otherwise() -> None:
    for task in (None, Task(kind="image")):
        bytes_scaling = scaling(task, (1, 2, 2), of_bytes=True)
        assert bytes_scaling is not None
        mean, scale = bytes_scaling
        assert (np.uint8(255).astype(np.float32) - mean) * scale == 1
        assert scaling(task, (1, 2, 2), of_bytes=False) is None


def test_one_number_per_channel_broadcasts_over_a_sample() -> None:
    found = scaling(Task(mean=(1.0, 2.0, 3.0), std=(2.0, 4.0, 8.0)), (3, 2, 2), of_bytes=True)
    assert found is not None
    mean, scale = found
    assert (mean.shape, scale.shape, mean.dtype, scale.dtype) == ((3, 1, 1), (3, 1, 1), np.float32, np.float32)
    x = np.full((5, 3, 2, 2), 9, np.uint8)
    assert ((x.astype(np.float32) - mean) * scale)[4, :, 1, 0].tolist() == [4.0, 1.75, 0.75]
    windows = scaling(Task(mean=(1.0,), std=(2.0,)), (6, 128), of_bytes=False)
    assert windows is not None
    assert windows[0].shape == (1, 1)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Task(class_names=("a",)), "class_names: 1 names for 2 classes"),
        (Task(mean=(1.0, 2.0), std=(1.0,)), "mean: 2 numbers for 3 channels"),
        (Task(mean=(1.0,), std=(1.0, 2.0)), "std: 2 numbers for 3 channels"),
    ],
)
def test_a_task_of_other_samples_is_refused(task: Task, message: str) -> None:
    with pytest.raises(EnvelopeError, match=message):
        check_task(task, (3, 4, 4), 2)
    check_task(None, (3, 4, 4), 2)
    check_task(Task(class_names=("a", "b"), mean=(1.0, 2.0, 3.0), std=(1.0,)), (3, 4, 4), 2)


def test_an_image_has_channels_height_and_width() -> None:
    with pytest.raises(EnvelopeError, match="inputs have 1 axes"):
        check_task(Task(kind="image"), (64,), 2)


def test_a_class_is_its_name_or_without_names_its_number_and_never_a_guess() -> None:
    named = Task(class_names=("cat", "dog"))
    assert [class_label(named, name, 2) for name in ("cat", "dog", "Dog", "1")] == [0, 1, None, None]
    assert [class_label(Task(), name, 3) for name in ("0", "2", "3", "-1", "1.0", "²", "")] == [0, 2] + [None] * 5


def test_a_process_without_numpy_knows_tasks() -> None:
    code = "import sys, wire.task; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
