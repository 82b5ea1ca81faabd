"""Architectures by name: the zoo, and users' own models by entry point. Imports torch only when one is built.

A user's package declares its model in `pyproject.toml`:

    [project.entry-points."edgestill.models"]
    mynet = "mypackage.net:mynet"

where `mynet(layers, input_shape, **options)` takes its convolutions, linear layers and activations from `layers`, so
that it works in every precision, and returns the extractor: an `nn.Module` (B, *input_shape) -> (B, width) with an
attribute `width`. The zoo's names are reserved. Networks that a program lends to this process (`core/own_code.py`) need
no package, and may be any module that returns logits (`models/own/`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, cast

from core import own_code
from core.entry_points import load_function, origin
from core.errors import ConfigError, did_you_mean
from models.own.libraries import backbone, check_library, is_backbone
from models.zoo import ZOO

if TYPE_CHECKING:
    from torch import nn

    from models.own.network import OwnNetwork

Architecture = Callable[..., "nn.Module"]  # (layers, input_shape, **options) -> extractor

__all__ = ["GROUP", "Architecture", "architecture", "check_name", "names"]

GROUP = "edgestill.models"


def names() -> tuple[str, ...]:
    """Every name that `architecture` knows: the zoo first, then users' models."""
    users = {point.name for point in entry_points(group=GROUP)}
    return (*ZOO, *sorted(users - ZOO.keys()), *own_code.names("model"))


def check_name(name: str) -> None:
    """Raise ConfigError for an unknown architecture; loads nothing."""
    if is_backbone(name):
        check_library(name)
    elif name not in ZOO and own_code.found("model", name) is None and name not in (known := names()):
        hint = did_you_mean(name, known) or "; known: " + " ".join(known)
        raise ConfigError(f"unknown architecture {name!r}{hint}")


def architecture(name: str) -> Architecture | OwnNetwork:
    """The function that builds the extractor called `name`, or a user's own network, lent by that name."""
    check_name(name)
    own = backbone(name) if is_backbone(name) else own_code.found("model", name)
    if own is not None:
        return cast("Architecture | OwnNetwork", own)
    points = tuple(entry_points(group=GROUP, name=name))
    if name in ZOO:
        if points:
            raise ConfigError(f"{origin(points[0])}: {name!r} is a name of the zoo; rename the entry point")
        module, _, function = ZOO[name].partition(":")
        return cast(Architecture, getattr(importlib.import_module(module), function))
    if len(points) > 1:
        raise ConfigError(f"model {name!r} comes from {' and '.join(map(origin, points))}; uninstall one")
    return cast(Architecture, load_function(points[0], f"model {points[0].name!r}"))
