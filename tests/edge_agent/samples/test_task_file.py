"""The fleet's task as a board knows it."""

from pathlib import Path

import pytest

from edge_agent.samples.spec import TASK
from edge_agent.samples.task_file import KnownTask, read_task, task_of, write_task
from wire.messages import ModelHeader, Task

pytestmark = pytest.mark.light
KNOWN = KnownTask(input_shape=(1, 8, 8), classes=2, task=Task(class_names=("cat", "dog"), mean=(1.0,), std=(2.0,)))


def test_it_is_kept_and_read_again(tmp_path: Path) -> None:
    assert read_task(tmp_path) is None
    write_task(tmp_path, KNOWN)
    written = (tmp_path / TASK).stat().st_mtime_ns
    write_task(tmp_path, KNOWN)
    assert read_task(tmp_path) == KNOWN
    assert (tmp_path / TASK).stat().st_mtime_ns == written
    header = ModelHeader(round=0, prototype="mlp:w1", input_shape=(2,), classes=3, latent=2, recipe="start")
    write_task(tmp_path, task_of(header))
    assert read_task(tmp_path) == KnownTask(input_shape=(2,), classes=3)


def test_classes_have_names_or_numbers() -> None:
    assert [KNOWN.label(label) for label in ("dog", "cow", 1, 2, None)] == [1, None, 1, None, None]
    plain = KnownTask(input_shape=(2,), classes=3)
    assert [plain.label(label) for label in ("2", "dog", 2, 3)] == [2, None, 2, None]
    assert (KNOWN.name(1), plain.name(1)) == ("dog", "1")


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"input_shape": [1], "classes": 2, "task": [["a", "a"]]}'])
def test_a_damaged_file_is_no_task(tmp_path: Path, content: bytes) -> None:
    (tmp_path / TASK).write_bytes(content)
    assert read_task(tmp_path) is None
