"""Annotations of a simulation's settings: the panel of `--help` that shows each one, its text and its bounds.

    rounds: Annotated[int, in_fleet("How many rounds.", ROUNDS)] = 10

Fields that are annotated by these are settings, of `[simulate]` and of the command line; others are for programs alone.
More words of them are keywords, for `fleet/simulation/settings/table.py`:

    key      its name there, where it is not the field's
    kind     its type there, where it is not the field's: a path that the field has as a string
    parse    from what is written there to the field's value
    written  how its default is written there, where `str` does not say it
"""

from __future__ import annotations

from typing import Any

from msgspec import Meta

from core.limits import Range
from core.settings import Field, describe, within

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
    """Who is there, and what they have."""
    return _meta(FLEET, text, limits, more)


def in_fusion(text: str, limits: Range | None = None, **more: Any) -> Meta:
    """What the aggregator does with the updates."""
    return _meta(FUSION, text, limits, more)


def in_training(text: str, limits: Range | None = None, **more: Any) -> Meta:
    """SGD on the device."""
    return _meta(TRAIN, text, limits, more)


def in_time(text: str, limits: Range | None = None, **more: Any) -> Meta:
    """How long it would take on boards."""
    return _meta(TIME, text, limits, more)


def in_output(text: str, limits: Range | None = None, **more: Any) -> Meta:
    """What is written."""
    return _meta(OUTPUT, text, limits, more)


def _meta(panel: str, text: str, limits: Range | None, more: dict[str, Any]) -> Meta:
    least, most = (None, None) if limits is None else (limits.least, limits.most)
    return within(least, most, text, panel=panel, **more)


def key_of(field: Field) -> str:
    """The name of a field as a setting; its flag has two dashes, and dashes for underscores."""
    return str(field.extra.get("key", field.name))


def check_ranges(config: object) -> None:
    """Refuse a number outside of the bounds that its field is annotated with; None is not set."""
    struct: Any = type(config)
    for name, field in describe(struct).items():
        if field.kind in (int, float) and field.least is not None and field.most is not None:
            Range(field.least, field.most).check(getattr(config, name), f"--{key_of(field).replace('_', '-')}")
