"""Settings of a simulation as users write them: one flat table for files, environment variables, flags and sweeps.

    [simulate]                       --rounds 20 --local-epochs 2 --fusion steps=50
    rounds = 20                      EDGESTILL_SIMULATE_ROUNDS=20
    local-epochs = 2                 or local_epochs
    fusion = { steps = 50 }          repeatable flags are tables here, and have no variable
    track = ["tensorboard:runs"]     or lists, whose variable is joined by commas

The keys are the annotated fields of `SimulationConfig`, of its virtual time and of `LocalFlags` below. `SETTINGS`
describes them as users write them, in the order of `--help`; `configure.py` builds the configuration. Imports no torch.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from core.config_keys import brief, read_toml, sub_table
from core.errors import ConfigError, did_you_mean
from core.limits import BATCH, CLIP, EPOCHS, LR, STEPS, WEIGHT, Range
from core.local_defaults import lr_or_auto
from core.settings import LARGEST_INT, Field, Settings, checked, describe, value_of
from edge_agent.training.params import DEFAULTS
from fleet.simulation.config import SimulationConfig
from fleet.simulation.settings.layers import Layer
from fleet.simulation.settings.panels import PANELS, in_training, key_of
from fleet.virtual.config import VirtualTime

__all__ = [
    "LOCAL",
    "ON_THE_LINE",
    "OWN",
    "PREFIX",
    "SETTINGS",
    "TIME",
    "find_setting",
    "from_environment",
    "places_in",
    "read_file",
    "scalar",
    "written",
]

PREFIX = "EDGESTILL_SIMULATE"
#: Flags of `edgestill simulate` that are for one call and no settings.
ON_THE_LINE = ("broker", "out", "config", "resume", "force", "dry_run", "callback", "quiet", "json")
PASSES = f"{DEFAULTS.epochs}, with at least {DEFAULTS.least_steps} and at most {DEFAULTS.most_steps} mini-batches"


class LocalFlags(Settings, frozen=True, kw_only=True):
    """Settings of local training; None means the default of `core/local_defaults.py` or of the recipe."""

    local_epochs: (
        Annotated[int, in_training(f"Passes over a device's samples per round [{PASSES}].", EPOCHS)] | None
    ) = None
    local_steps: Annotated[int, in_training("Mini-batches per round, instead of epochs.", STEPS)] | None = None
    lr: (
        Annotated[
            float, in_training("Learning rate [auto: by batch size and momentum].", LR, kind=str, reads=lr_or_auto)
        ]
        | None
    ) = None
    momentum: Annotated[float, in_training("Momentum of SGD, reset each round.")] = DEFAULTS.momentum
    batch_size: Annotated[int, in_training("Mini-batch size.", BATCH)] = DEFAULTS.batch_size
    clip: Annotated[float, in_training("Maximum norm of a mini-batch's gradient; 0 is off.", Range(0, CLIP.most))] = (
        DEFAULTS.clip
    )
    prox: Annotated[float, in_training("FedProx's mu; 0 is off [the recipe's].", WEIGHT)] | None = None
    fast: Annotated[str, in_training("Hand-written fast paths of local training: auto, or off to verify them.")] = (
        DEFAULTS.fast
    )
    amp: Annotated[str, in_training("Mixed precision of devices and students: off, or bf16 (docs/gpu.md).")] = (
        DEFAULTS.amp
    )


def _fields(struct: Any) -> dict[str, Field]:
    """The settings of a struct by their keys."""
    return {key_of(field): field for field in describe(struct).values() if "panel" in field.extra}


#: The fields behind the keys: of the simulation itself, of local training, of virtual time.
OWN, LOCAL, TIME = _fields(SimulationConfig), _fields(LocalFlags), _fields(VirtualTime)


def _as_written(key: str, field: Field) -> Field:
    """A field of the flat table; settings with a parser are texts or tables here."""
    kind = field.extra.get("kind", str if field.parse is not None and field.kind is not dict else field.kind)
    default = field.extra.get("written", field.default)
    if kind is str and default is not None:
        default = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
    default = {bool: False, dict: None, tuple: None}.get(kind, default)
    parse = field.extra.get("reads", _as_text if kind is str else None)
    return dataclasses.replace(field, name=key, kind=kind, default=default, parse=parse, table=None)


def _as_text(value: Any) -> str:
    """The text of a value; lists are joined by commas."""
    if isinstance(value, list) and all(isinstance(part, str | int) for part in value):
        return ",".join(part if isinstance(part, str) else brief(part) for part in value)
    sane = isinstance(value, str | float) or (isinstance(value, int) and abs(value) <= LARGEST_INT)
    if not sane or isinstance(value, bool):
        raise ValueError("give a text")
    return str(value)


#: Every setting by its key, as users write it, in the order of `--help`.
SETTINGS: Mapping[str, Field] = dict(
    sorted(
        ((key, _as_written(key, field)) for part in (OWN, LOCAL, TIME) for key, field in part.items()),
        key=lambda item: PANELS.index(item[1].extra["panel"]),
    )
)


def find_setting(key: str, place: str) -> Field:
    """The setting with this key, spelled with dashes or underscores."""
    name = key.replace("-", "_")
    if name in ON_THE_LINE:
        flag = f"--{name.replace('_', '-')}"
        raise ConfigError(f"{place}: {brief(key)} is no setting of a run; give it on the command line, as {flag}")
    if name not in SETTINGS:
        hint = did_you_mean(name, SETTINGS) or "; known: the flags of 'edgestill simulate', without their dashes"
        raise ConfigError(f"{place}: unknown setting {brief(key)}{hint}")
    return SETTINGS[name]


def written(table: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The settings of a file's table by key, checked for type and bounds."""
    settings = {}
    for key, value in table.items():
        setting = find_setting(key, place)
        if setting.name in settings:
            raise ConfigError(f"{place}: {key!r} is given twice, with dashes and with underscores")
        if setting.kind is not dict:
            settings[setting.name] = checked(setting, value, f"{place}: {key!r}")
        elif isinstance(value, dict):
            settings[setting.name] = {name: scalar(item, f"{place}: '{key}.{name}'") for name, item in value.items()}
        else:
            raise ConfigError(f"{place}: {key!r} is {brief(value)}, expected a table such as {{ name = value }}")
    return settings


def scalar(value: Any, name: str) -> Any:
    """A value of a table of NAME = VALUE; a list of texts is joined by commas."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ",".join(value)
    if not isinstance(value, str | int | float) or (isinstance(value, int) and abs(value) > LARGEST_INT):
        raise ConfigError(f"{name} is {brief(value)}, expected a text, a number, true or false")
    return value


def read_file(path: Path) -> Layer:
    """The settings in the [simulate] table of a file, which has no other table."""
    file = read_toml(path)
    for name in file:
        if name != "simulate":
            own = name.replace("-", "_") in (*SETTINGS, *ON_THE_LINE)
            hint = "settings stand in a table: write [simulate] above them" if own else "known: [simulate]"
            raise ConfigError(f"{path}: unknown table {brief(name)}; {hint}")
    table, place = sub_table(file, "simulate", str(path)), f"{path} [simulate]"
    return Layer(written(table, place), places_in(table, place))


def places_in(table: Mapping[str, Any], place: str) -> dict[str, str]:
    """The places of a file's settings, by their keys."""
    return {key.replace("-", "_"): f"{place}: {key!r}" for key in table}


def from_environment(environ: Mapping[str, str] = os.environ) -> Layer:
    """The settings given by environment variables; ConfigError for a variable with the prefix but no setting."""
    variables = {key: f"{PREFIX}_{key.upper()}" for key, setting in SETTINGS.items() if setting.kind is not dict}
    for name in sorted(environ):
        if name.startswith(f"{PREFIX}_") and name not in variables.values():
            hint = _meant_variable(name, variables) or "; see docs/simulate.md for the settings that have one"
            raise ConfigError(f"{name}: no setting has this variable{hint}")
    there = {key: variable for key, variable in variables.items() if variable in environ}
    return Layer({key: value_of(SETTINGS[key], environ[name], name) for key, name in there.items()}, there)


def _meant_variable(name: str, variables: Mapping[str, str]) -> str:
    key = name.removeprefix(f"{PREFIX}_").lower()
    if key in ON_THE_LINE:
        return f"; give it on the command line, as --{key.replace('_', '-')}"
    near = [variable for key_of_it, variable in variables.items() if repr(key_of_it) in did_you_mean(key, variables)]
    return f"; did you mean {near[0]!r}?" if near else ""
