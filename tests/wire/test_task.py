"""A task, applied to samples."""

import subprocess
import sys

import pytest

from core.errors import EnvelopeError
from wire.messages import Task
from wire.task import check_task, class_label

pytestmark = pytest.mark.light


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
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0
