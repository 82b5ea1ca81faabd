"""What a run of a sweep is told, as a configuration to be checked and as the flags of `edgestill simulate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from aggregator.overrides import parse_overrides
from aggregator.recipes import find_recipe
from edge_agent.hyper import LocalTraining
from fleet.config import SimulationConfig
from fleet.partition import parse_options, uses_alpha
from fleet.sweep.grid import Flag, Settings
from wire.errors import ConfigError

__all__ = ["configuration", "flags_of"]

BOTH = ("false", "true")
WORDS = {"option": ("no", "yes")}  # of partitions; recipes read JSON
TRAINING = ("lr", "momentum", "batch_size", "prox")


def configuration(settings: Settings, defaults: Mapping[str, Any]) -> SimulationConfig:
    """The configuration that `edgestill simulate` makes of these settings; `defaults` are its flags' own."""
    told = {**defaults, **settings}
    epochs, steps = told.get("local_epochs"), told.get("local_steps")
    if epochs is not None and steps is not None:
        raise ConfigError("give either local-epochs or local-steps, not both")
    if epochs is None and steps is None:
        epochs = 2
    overrides = parse_overrides(_pairs("fusion", told))
    if told.get("prox") is None:
        told["prox"] = find_recipe(told["recipe"], overrides).local.get("prox", 0.0)
    uses_alpha(told["partition"])  # refuses a name that no partition has
    made = {
        "prototypes": _words(told["prototypes"]),
        "training": LocalTraining(**{name: told[name] for name in TRAINING}, epochs=epochs, steps=steps),
        "options": parse_options(_pairs("option", told)),
        "fusion": overrides,
        "source_classes": tuple(_number(word) for word in _words(told.get("source_classes") or "")),
        "attack": told.get("attack") or "",
    }
    known = {field.name for field in fields(SimulationConfig)}
    plain = {name: value for name, value in told.items() if name in known and value is not None}
    return SimulationConfig(**{**plain, **made})


def flags_of(settings: Settings, flags: Mapping[str, Flag]) -> list[str]:
    """The command line of these settings."""
    words = []
    for name, value in settings.items():
        flag = flags[name]
        if flag.repeated:
            words += [f"{flag.flag}={pair}" for pair in _pairs(name, settings)]
        elif flag.kind is bool:
            words += [flag.flag] if value else []
        else:
            words.append(f"{flag.flag}={value}")  # one word: a value may start with a dash
    return words


def _pairs(name: str, settings: Mapping[str, Any]) -> list[str]:
    """The table `name` as a command line writes it."""
    return [f"{field}={_text(value, *WORDS.get(name, BOTH))}" for field, value in (settings.get(name) or {}).items()]


def _text(value: Any, no: str, yes: str) -> str:
    return (yes if value else no) if isinstance(value, bool) else str(value)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _number(word: str) -> int:
    if not word.isdecimal():
        raise ConfigError(f"source-classes: {word!r} is no class; give numbers from 0, such as 0,1,2")
    return int(word)
