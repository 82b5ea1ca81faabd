"""What a task says, applied: whether it fits a prototype's input, and how its samples become inputs.

A sample x of the stored kind, an image of bytes 0 .. 255 or a window of sensor values, becomes the input
(x - mean) / std, computed in float32 as (x - mean) * (1 / std). The first axis of a sample is its channels, so one
number per channel has the shape (C, 1, ...). A task without mean and std divides bytes by 255 and leaves floats as
they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from core.errors import EnvelopeError
from wire.messages import Task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["check_task", "class_label", "scaling"]


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


def scaling(
    task: Task | None, input_shape: Sequence[int], *, of_bytes: bool
) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """mean and 1 / std of stored samples, float32, (1 or C, 1, ...) to broadcast over one; None: used as they are."""
    import numpy as np  # not at the top: the agent, which holds no NumPy, knows tasks too

    mean: Sequence[float] = () if task is None else task.mean
    std: Sequence[float] = () if task is None else task.std
    if not mean:
        if not of_bytes:
            return None
        mean, std = (0.0,), (255.0,)
    shape = (-1,) + (1,) * (len(input_shape) - 1)
    return (
        np.asarray(mean, np.float32).reshape(shape),
        np.float32(1) / np.asarray(std, np.float32).reshape(shape),
    )


def class_label(task: Task | None, name: str, classes: int) -> int | None:
    """The label of a class by its name; without names in the task, by its number. None: no class is called so.

    >>> class_label(Task(class_names=("cat", "dog")), "dog", 2), class_label(None, "1", 2), class_label(None, "2", 2)
    (1, 1, None)
    """
    if task is not None and task.class_names:
        return task.class_names.index(name) if name in task.class_names else None
    number = int(name) if name.isascii() and name.isdecimal() and len(name) < 6 else classes
    return number if number < classes else None
