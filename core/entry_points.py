"""Loading of user extensions by entry points, with one-line errors. Standard library only."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

from core.errors import ConfigError, EdgestillError

__all__ = ["guarded", "load_function", "load_object", "origin", "reported"]


def origin(point: EntryPoint) -> str:
    """The entry point and its package, for messages."""
    package = point.dist.name if point.dist is not None else "an unnamed package"
    return f"entry point {point.value!r} of {package}"


def _named(point: EntryPoint, what: str) -> str:
    """What an error is about; a `module:function` that no package names, and `what` names, needs no origin."""
    return what if point.dist is None and repr(point.value) in what else f"{origin(point)}: {what}"


def load_object(point: EntryPoint, what: str) -> Any:
    """The object that `point` names; `what` describes it in errors, such as "recipe mine"."""
    try:
        return point.load()
    except Exception as error:  # a user's module may raise anything when imported
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{_named(point, what)} does not load ({reason})") from error


def load_function(point: EntryPoint, what: str) -> Callable[..., Any]:
    """The function that `point` names; `what` describes it in errors, such as "attack tamper.mine"."""
    found = load_object(point, what)
    if not callable(found):
        raise ConfigError(f"{_named(point, what)} is not a function but a {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def guarded(point: EntryPoint, what: str) -> Callable[..., Any]:
    """The function that `point` names; whatever it raises when called becomes a ConfigError that names its package."""
    return reported(load_function(point, what), _named(point, what))


def reported(function: Callable[..., Any], what: str) -> Callable[..., Any]:
    """A user's function; whatever it raises when called becomes a ConfigError that starts with `what`."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except EdgestillError:
            raise
        except Exception as error:  # a user's function may raise anything
            reason = f"{type(error).__name__}: {error}"
            raise ConfigError(f"{what} failed ({reason})") from error

    return call
