"""Keyword arguments of the API as settings of a simulation (`fleet/simulation/settings/`), under the same names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from core.errors import ConfigError, did_you_mean
from core.settings import checked
from fleet.simulation.config import SimulationConfig
from fleet.simulation.own_code.objects import with_names
from fleet.simulation.settings.configure import configure
from fleet.simulation.settings.layers import Layer, overlay
from fleet.simulation.settings.table import SETTINGS, from_environment, read_file, scalar

__all__ = ["configured", "layer_of", "with_signature"]

F = TypeVar("F", bound=Callable[..., Any])


def configured(given: Mapping[str, Any], place: str, file: str | Path | None = None) -> SimulationConfig:
    """The configuration of these arguments, over environment variables and a file; errors start with `place`."""
    layers = Layer() if file is None else read_file(Path(file)), from_environment(), layer_of(given, place)
    layer = overlay(*layers)
    with layer.located():
        return configure(layer.values)


def layer_of(given: Mapping[str, Any], place: str) -> Layer:
    """The arguments as settings of one layer, checked for name, type and bounds; None means the default."""
    values = {key: value for key, value in given.items() if value is not None}
    for key in values:
        if key not in SETTINGS:
            hint = did_you_mean(key, SETTINGS) or "; known: the flags of 'edgestill simulate', with underscores"
            raise ConfigError(f"{place}: unknown argument {key!r}{hint}")
    try:
        values = with_names(values)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error
    settings = {key: _value(key, value, f"{place}: {key}") for key, value in values.items()}
    return Layer(settings, {key: f"{place}: {key}" for key in settings})


def _value(key: str, value: Any, what: str) -> Any:
    setting = SETTINGS[key]
    if setting.kind is dict:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{what} is {value!r}, expected a dict such as {{'steps': 200}}")
        return {str(name): scalar(_plain(item), f"{what}[{name!r}]") for name, item in value.items()}
    return checked(setting, _plain(value), what)


def _plain(value: Any) -> Any:
    """Paths as texts and tuples as lists, as a file would have them; NumPy's numbers as Python's."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return list(value)
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


def with_signature(function: F) -> F:
    """`function(*, own=..., **settings)` with a parameter for every setting: for help() and completion in notebooks."""
    own = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
    taken = {parameter.name for parameter in own}
    settings = [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=setting.default, annotation=setting.kind)
        for key, setting in SETTINGS.items()
        if key not in taken
    ]
    function.__signature__ = inspect.Signature([*settings, *own])  # type: ignore[attr-defined]
    return function
