"""Settings from several places: which value applies, and which place an error message names.

    layer = overlay(file, environment, flags)      # later ones override earlier ones
    with layer.located():
        config = configure(layer.values)

Of settings that exclude each other (`PAIRS`) those of the latest layer apply, so that a flag is never refused because
of a file; `configure` refuses two of the same layer. A setting that depends on another one, such as `address` on the
engine ray, is dropped if a later layer overrides that one.

Code that refuses a setting names it by `about`, and `located` prefixes its place, unless that is a flag:

    run.toml [simulate]: 'fraction' 2; give a number above 0 and at most 1
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from core.errors import EdgestillError

__all__ = ["Layer", "about", "overlay"]

PAIRS = (("local_epochs", "local_steps"),)
#: A setting, a value of it that others need, and those others.
NEEDED: tuple[tuple[str, Callable[[Any], bool], tuple[str, ...]], ...] = (
    ("engine", lambda engine: engine == "ray", ("address",)),
    (
        "virtual_clock",
        bool,
        (
            *("deadline", "quorum", "availability", "dropout", "trace", "hardware"),
            *("buffer", "concurrency", "staleness", "max_staleness"),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Layer:
    """Settings by their keys, and where each was written; flags have no place, they are before the user's eyes."""

    values: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)

    @contextmanager
    def located(self) -> Iterator[None]:
        """Errors about a setting that has a place start with it."""
        try:
            yield
        except EdgestillError as error:
            key = next((key for key in error.settings if key in self.values), None)
            if key is not None and key in self.places:
                error.args = (_placed(str(error), key, self.places[key]), *error.args[1:])
            raise


def overlay(*layers: Layer) -> Layer:
    """All of them as one, the last first."""
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for layer in layers:
        for key in _overridden(layer.values):
            values.pop(key, None)
            places.pop(key, None)
        values |= layer.values
        places = {key: place for key, place in places.items() if key not in layer.values} | dict(layer.places)
    return Layer(values, places)


def _overridden(values: Mapping[str, Any]) -> Collection[str]:
    """Settings of earlier layers that these values override, by name or because they depend on them."""
    ended = {key for pair in PAIRS for key in pair if not set(pair).isdisjoint(values)}
    for key, is_met, needing in NEEDED:
        if key in values and not is_met(values[key]):
            ended |= set(needing)
    return ended


@contextmanager
def about(*keys: str) -> Iterator[None]:
    """Errors that pass are about these settings, the likeliest first."""
    try:
        yield
    except EdgestillError as error:
        error.settings = error.settings or keys
        raise


def _placed(text: str, key: str, place: str) -> str:
    """
    >>> _placed("--alpha 0; give at least 1", "alpha", "a.toml [simulate]: 'alpha'")
    "a.toml [simulate]: 'alpha' 0; give at least 1"
    """
    flag = f"--{key.replace('_', '-')}"
    return place + text.removeprefix(flag) if text.startswith((f"{flag} ", f"{flag}:")) else f"{place}: {text}"
