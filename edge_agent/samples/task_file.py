"""The fleet's task as the board knows it: written by the child that opens a model, read before there is another.

Before its first model a board knows no task; its samples are then counted by the class names that they have.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from core.errors import EdgestillError
from core.files import write_atomic
from edge_agent.samples.entries import Label
from edge_agent.samples.spec import TASK
from wire.messages import ModelHeader, Task
from wire.task import class_label

__all__ = ["KnownTask", "read_task", "task_of", "write_task"]


class KnownTask(msgspec.Struct, frozen=True, kw_only=True):
    """The task of a model: samples and classes."""

    input_shape: tuple[int, ...]
    classes: int
    task: Task | None = None

    def label(self, label: Label) -> int | None:
        """The number of a class; None if the task has no such class."""
        if isinstance(label, str):
            return class_label(self.task, label, self.classes)
        return label if label is not None and label < self.classes else None

    def name(self, label: int) -> str:
        """The name of a class, or its number."""
        names = () if self.task is None else self.task.class_names
        return names[label] if label < len(names) else str(label)


def task_of(header: ModelHeader) -> KnownTask:
    """The task in a model's header."""
    return KnownTask(input_shape=header.input_shape, classes=header.classes, task=header.task)


def read_task(state_dir: Path) -> KnownTask | None:
    """The task of the last model; None before the first, or if the file is unreadable."""
    try:
        return msgspec.json.decode((state_dir / TASK).read_bytes(), type=KnownTask)
    except (OSError, ValueError, msgspec.MsgspecError, EdgestillError):
        return None


def write_task(state_dir: Path, known: KnownTask) -> None:
    """Store the task, if it differs from the stored one."""
    if read_task(state_dir) != known:
        write_atomic(state_dir / TASK, msgspec.json.encode(known))
