"""Attacks of users, by entry point. Imports no torch, and a user's module only when its attack is executed.

A user's package declares its attack in `pyproject.toml`, by its kind and its name in `--attack`:

    [project.entry-points."edgestill.attacks"]
    "tamper.drift" = "mypackage.attacks:drift"
    "labels.shift" = "mypackage.attacks:shift"

    tamper    (trained, received, generator, strength) -> tensors by name that replace `trained`
    labels    (y, classes) -> the labels that the device trains with

The built-in names are reserved. Functions that a program lends to this process (`core/own_code.py`) need no package.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from core import own_code
from core.entry_points import guarded, origin, reported
from core.errors import ConfigError

if TYPE_CHECKING:
    import torch

__all__ = ["GROUP", "KINDS", "kind_of", "own_labels", "own_names", "own_tamper"]

GROUP = "edgestill.attacks"
KINDS = ("tamper", "labels")


def own_names() -> tuple[str, ...]:
    """The names of all installed attacks of users."""
    return (*sorted({point.name.partition(".")[2] for point in _points()}), *own_code.names("attack"))


def kind_of(name: str) -> str:
    """`tamper` or `labels`; the name is one of `own_names`."""
    own = own_code.found("attack", name)
    return _kind_of_installed(name) if own is None else kind_of_function(name, own)


@functools.cache  # scanning the installed packages takes milliseconds
def _kind_of_installed(name: str) -> str:
    return _point(name).name.partition(".")[0]


def kind_of_function(name: str, function: Callable[..., Any]) -> str:
    """The kind of a lent function, by its number of arguments."""
    kind = {4: "tamper", 2: "labels"}.get(len(inspect.signature(function).parameters)) if callable(function) else None
    if kind is None:
        raise ConfigError(
            f"attack {name}: give a function (trained, received, generator, strength), or of labels: (y, classes)"
        )
    return kind


def own_tamper(
    name: str,
    trained: Mapping[str, torch.Tensor],
    received: Mapping[str, torch.Tensor],
    generator: torch.Generator,
    strength: float | None,
) -> dict[str, torch.Tensor]:
    """The tensors of a user's attack, checked: same names and shapes as `trained`."""
    sent = _load(name)(trained, received, generator, strength)
    if not isinstance(sent, Mapping):
        raise ConfigError(f"attack {name}: gave a {type(sent).__name__}, expected tensors by name")
    for key, value in trained.items():
        shape = getattr(sent.get(key), "shape", None)
        if shape != value.shape:
            result = "nothing" if shape is None else f"shape {tuple(shape)}"
            raise ConfigError(f"attack {name}: gave {result} for {key!r}, expected shape {tuple(value.shape)}")
    return {key: sent[key] for key in trained}


def own_labels(name: str, y: torch.Tensor, classes: int) -> torch.Tensor:
    """The labels of a user's attack, checked: same length, each a class."""
    labels = _load(name)(y, classes)
    if getattr(labels, "shape", None) != y.shape:
        raise ConfigError(f"attack {name}: did not return {len(y)} labels; return a tensor with the shape of its input")
    if len(y) and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise ConfigError(f"attack {name}: labels from {int(labels.min())} to {int(labels.max())}, classes: {classes}")
    return labels.to(y.dtype)  # type: ignore[no-any-return]


def _load(name: str) -> Callable[..., Any]:
    own = own_code.found("attack", name)
    return _installed(name) if own is None else reported(own, f"attack {name}")


@functools.cache
def _installed(name: str) -> Callable[..., Any]:
    return guarded(_point(name), f"attack {name}")


def _points() -> list[EntryPoint]:
    points = list(entry_points(group=GROUP))
    for point in points:
        kind, dot, name = point.name.partition(".")
        if kind not in KINDS or not (dot and name):
            raise ConfigError(f"{origin(point)}: {point.name!r} is no attack; call it tamper.NAME or labels.NAME")
    return points


def _point(name: str) -> EntryPoint:
    points = [point for point in _points() if point.name.partition(".")[2] == name]
    if len(points) > 1:
        raise ConfigError(f"attack {name} comes from {' and '.join(map(origin, points))}; uninstall one")
    return points[0]
