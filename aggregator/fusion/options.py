"""Options of a recipe's parts, read with their limits."""

from __future__ import annotations

from aggregator.fusion.types import View
from core.errors import ConfigError

__all__ = ["flag", "real", "whole"]


def real(view: View, name: str, default: float, *, low: float, high: float = float("inf")) -> float:
    """The option `name`: a number from `low` to `high`."""
    value = view.options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ConfigError(f"{name} = {value!r} must be a number from {low} to {high}")
    return float(value)


def whole(view: View, name: str, default: int, *, low: int) -> int:
    """The option `name`: a whole number, at least `low`."""
    value = view.options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise ConfigError(f"{name} = {value!r} must be a whole number, at least {low}")
    return value


def flag(view: View, name: str) -> bool:
    """The option `name`: true or false, by default false."""
    value = view.options.get(name, False)
    if not isinstance(value, bool):
        raise ConfigError(f"{name} = {value!r} must be true or false")
    return value
