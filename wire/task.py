"""What a task says, applied: whether it fits a prototype's input, and the number of a class.

How its samples become inputs is computed by `models/normalization.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.errors import EnvelopeError
from wire.messages import Task

__all__ = ["check_task", "class_label"]


def check_task(task: Task | None, input_shape: Sequence[int], classes: int) -> None:
    """`EnvelopeError` if the task is not one of such samples in so many classes."""
    if task is None:
        return
    if task.class_names and len(task.class_names) != classes:
        raise EnvelopeError(f"Task.class_names: {len(task.class_names)} names for {classes} classes; give one for each")
    for name, values in (("mean", task.mean), ("std", task.std)):
        if len(values) > 1 and len(values) != input_shape[0]:
            raise EnvelopeError(f"Task.{name}: {len(values)} numbers for {input_shape[0]} channels; give 1, or as many")
    if task.kind == "image" and len(input_shape) != 3:
        raise EnvelopeError(f"Task.kind: image, but inputs have {len(input_shape)} axes; give channels, height, width")


def class_label(task: Task | None, name: str, classes: int) -> int | None:
    """The label of a class by its name; without names in the task, by its number. None: no class is called so.

    >>> class_label(Task(class_names=("cat", "dog")), "dog", 2), class_label(None, "1", 2), class_label(None, "2", 2)
    (1, 1, None)
    """
    if task is not None and task.class_names:
        return task.class_names.index(name) if name in task.class_names else None
    number = int(name) if name.isascii() and name.isdecimal() and len(name) < 6 else classes
    return number if number < classes else None
