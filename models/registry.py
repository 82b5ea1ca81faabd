"""Architectures by name: the zoo, and users' own models by entry point. Imports no torch until one is asked for.

A user's package declares its model in `pyproject.toml`:

    [project.entry-points."edgestill.models"]
    mynet = "mypackage.net:mynet"

where `mynet(layers, input_shape, **options)` takes its convolutions, linear layers and activations from `layers`, so
that it exists in every precision, and returns the extractor: an `nn.Module` (B, *input_shape) -> (B, width) with an
attribute `width`. The zoo's names are reserved.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, cast

from models.zoo import ZOO
from wire.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from torch import nn

Architecture = Callable[..., "nn.Module"]  # (layers, input_shape, **options) -> extractor

__all__ = ["GROUP", "Architecture", "architecture", "check_name", "names"]

GROUP = "edgestill.models"


def names() -> tuple[str, ...]:
    """Every name that `architecture` knows: the zoo first, then users' models."""
    users = {point.name for point in entry_points(group=GROUP)}
    return (*ZOO, *sorted(users - ZOO.keys()))


def check_name(name: str) -> None:
    """Refuse a name that no architecture has; loads nothing."""
    if name not in ZOO and name not in (known := names()):
        hint = did_you_mean(name, known) or "; known: " + " ".join(known)
        raise ConfigError(f"unknown architecture {name!r}{hint}")


def architecture(name: str) -> Architecture:
    """The function that builds the extractor called `name`."""
    check_name(name)
    points = tuple(entry_points(group=GROUP, name=name))
    if name in ZOO:
        if points:
            raise ConfigError(f"{_origin(points[0])}: {name!r} is a name of the zoo; rename the entry point")
        module, _, function = ZOO[name].partition(":")
        return cast(Architecture, getattr(importlib.import_module(module), function))
    if len(points) > 1:
        raise ConfigError(f"model {name!r} comes from {' and '.join(map(_origin, points))}; uninstall one")
    return _load(points[0])


def _load(point: EntryPoint) -> Architecture:
    try:
        made = point.load()
    except Exception as error:  # whatever a user's module raises while it is imported
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{_origin(point)}: model {point.name!r} does not load ({reason})") from error
    if not callable(made):
        raise ConfigError(f"{_origin(point)}: model {point.name!r} is no function but a {type(made).__name__}")
    return cast(Architecture, made)


def _origin(point: EntryPoint) -> str:
    package = point.dist.name if point.dist is not None else "an unnamed package"
    return f"entry point {point.value!r} of {package}"
