"""One value for one field: from a text or as it is, checked, with a message of one line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.config_keys import brief
from core.errors import ConfigError, did_you_mean
from core.settings.fields import Field

__all__ = ["HIDDEN", "LARGEST_FLOAT", "LARGEST_INT", "checked", "value_of"]

#: Where a field says nothing else: what a float64 counts exactly, and no number that only overflows.
LARGEST_INT, LARGEST_FLOAT = 2**53, 1e15
LONGEST_PATH = 4096
GUARD = 1e5  # a bound from here on only keeps slips of the hand out: whoever gave too little need not hear of it
HIDDEN = "(hidden)"
_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def value_of(field: Field, text: str, what: str) -> Any:
    """The value that a text means for a field, checked; `what` starts the message."""
    return checked(field, text if field.parse is not None else _from_text(text, field), what)


def checked(field: Field, value: Any, what: str) -> Any:
    """The value that a file or a program gives for a field; ConfigError says what is expected instead."""
    shown = HIDDEN if field.secret else brief(value)
    if field.parse is not None:
        try:
            return field.parse(value)
        except ValueError as error:
            raise ConfigError(f"{what} is {shown}; {error}") from None
    value = _converted(value, field)
    shown = HIDDEN if field.secret else brief(value)
    if not _is_a(value, field.kind) or (field.kind is tuple and not all(_is_a(part, field.item) for part in value)):
        raise ConfigError(f"{what} is {shown}, expected {field.expected}")
    if field.choices and value not in field.choices:
        known = [str(choice) for choice in field.choices]
        raise ConfigError(f"{what} is {shown}{did_you_mean(str(value), known)}; known: {' '.join(known)}")
    if field.kind in (int, float):
        _check_range(field, value, f"{what} is {shown}")
    return value


def _from_text(text: str, field: Field) -> Any:
    """The value that a text means; the text itself if it means none, for the check to refuse."""
    try:
        if field.kind is bool:
            return _WORDS.get(text.strip().lower(), text)
        if field.kind in (int, float):
            return field.kind(text)
        if field.kind is tuple:
            parts = [part.strip() for part in text.split(",") if part.strip()]
            return [field.item(part) for part in parts] if field.item in (int, float) else parts
    except ValueError:
        return text
    return text


def _converted(value: Any, field: Field) -> Any:
    """With the conversions that lose nothing: a whole number as a float, a string as a path, a list as a tuple."""
    if field.kind is float and _is_a(value, int) and abs(value) <= LARGEST_INT:
        return float(value)
    if field.kind is tuple and isinstance(value, list | tuple):
        return tuple(_item(part, field.item) for part in value)
    return _as_path(value) if field.kind is Path else value


def _item(part: Any, item: type) -> Any:
    if item is float and _is_a(part, int) and abs(part) <= LARGEST_INT:
        return float(part)
    return _as_path(part) if item is Path else part


def _as_path(value: Any) -> Any:
    sane = isinstance(value, str) and 0 < len(value) <= LONGEST_PATH and "\0" not in value
    return Path(value).expanduser() if sane else value


def _is_a(value: Any, kind: type) -> bool:
    return isinstance(value, Mapping if kind is dict else kind) and not (kind is int and isinstance(value, bool))


def _check_range(field: Field, value: float, what: str) -> None:
    largest = LARGEST_INT if field.kind is int else LARGEST_FLOAT
    least, most = -largest if field.least is None else field.least, largest if field.most is None else field.most
    if least <= value <= most:  # written so that NaN is refused
        return
    if field.least is not None and not value >= field.least and most >= GUARD:
        raise ConfigError(f"{what}, expected {field.expected} of at least {field.least:g}")
    bounds = f"of at most {most:g}" if field.least is None else f"from {field.least:g} to {most:g}"
    raise ConfigError(f"{what}, expected {field.expected} {bounds}")
