"""Annotations of a simulation's settings: the `--help` panel, the help text and the bounds of each.

    rounds: Annotated[int, in_fleet("Number of rounds.", ROUNDS)] = 10

Fields with such an annotation are settings of `[simulate]` and of the command line; the others belong to the API only.
Further keywords, read by `fleet/simulation/settings/table.py`:

    key      name of the setting, if it differs from the field's
    kind     type of the setting, if it differs from the field's: a path where the field is a string
    parse    converts the setting to the field's value
    reads    checks the text of a file or a variable, if it is neither a number nor free text
    written  text of the default, if it differs from `str` of the field's default
"""

from __future__ import annotations

from typing import Any

from msgspec import Meta

from core.limits import Range
from core.settings import Field, describe, within
from fleet.simulation.settings.layers import about

__all__ = [
    "FLEET",
    "OUTPUT",
    "PANELS",
    "check_ranges",
    "in_fleet",
    "in_fusion",
    "in_output",
    "in_time",
    "in_training",
    "key_of",
]

FLEET, FUSION, TRAIN, TIME, OUTPUT = "Fleet", "Fusion", "Local training", "Virtual time", "Output"
#: In the order of `--help`.
PANELS = (FLEET, FUSION, TRAIN, TIME, OUTPUT)


def in_fleet(text: str, limits: Range | None = None, **more: Any) -> Meta:
    """The devices, their data and models."""
    return _meta(FLEET, text, limits, more)


def in_fusion(text: str, limits: Range | None = None, **more: Any) -> Meta:
    """Fusion on the aggregator."""
    return _meta(FUSION, text, limits, more)


def in_training(text: str, limits: Range | None = None, **more: Any) -> Meta:
    """SGD on the device."""
    return _meta(TRAIN, text, limits, more)


def in_time(text: str, limits: Range | None = None, **more: Any) -> Meta:
    """Virtual time on boards."""
    return _meta(TIME, text, limits, more)


def in_output(text: str, limits: Range | None = None, **more: Any) -> Meta:
    """Output and encoding."""
    return _meta(OUTPUT, text, limits, more)


def _meta(panel: str, text: str, limits: Range | None, more: dict[str, Any]) -> Meta:
    least, most = (None, None) if limits is None else (limits.least, limits.most)
    return within(least, most, text, panel=panel, **more)


def key_of(field: Field) -> str:
    """The setting's key of a field; its flag starts with two dashes and has dashes for underscores."""
    return str(field.extra.get("key", field.name))


def check_ranges(config: object) -> None:
    """Reject numbers outside of the bounds of their fields; None means not set."""
    struct: Any = type(config)
    for name, field in describe(struct).items():
        if field.kind in (int, float) and field.least is not None and field.most is not None:
            key = key_of(field)
            with about(key):
                Range(field.least, field.most).check(getattr(config, name), f"--{key.replace('_', '-')}")
