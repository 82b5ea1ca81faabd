"""Adds an option for every setting of a simulation to a command, from `SETTINGS`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from core.settings import Field
from edgestill.cli.completion import SETTING_NAMES
from fleet.simulation.settings.table import SETTINGS

__all__ = ["names_given", "with_settings"]


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """`command(ctx, given, ...)` with an option for every setting; `given` holds those on the command line, by key.

    Typer reads options from a function's signature, which is built here: the context, the settings in order, then the
    command's own options.
    """

    @wraps(command)
    def with_options(ctx: typer.Context, **values: Any) -> None:
        named = names_given(ctx)
        given = {key: value for key in SETTINGS if (value := values.pop(key)) is not None and key in named}
        command(ctx, given, **values)

    hints = get_type_hints(command, include_extras=True)
    ctx, _, *own = inspect.signature(command).parameters.values()
    options = [_parameter(setting) for setting in SETTINGS.values()]
    own = [p.replace(annotation=hints[p.name], kind=p.KEYWORD_ONLY) for p in own]
    parameters = [ctx.replace(annotation=hints[ctx.name]), *options, *own]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def names_given(ctx: typer.Context) -> set[str]:
    """The parameters given on the command line; the others have their defaults."""
    names = {parameter.name for parameter in ctx.command.params if parameter.name}
    return {name for name in names if str(ctx.get_parameter_source(name)).endswith("COMMANDLINE")}


def _parameter(setting: Field) -> inspect.Parameter:
    kind: Any = list[str] if setting.kind in (dict, tuple) else setting.kind
    kind = kind | None if setting.default is None else kind
    flags = (setting.flag,) if setting.kind is bool else ()  # no --no-... variant
    completed = SETTING_NAMES.get(setting.name)
    option = typer.Option(*flags, help=setting.help, rich_help_panel=setting.extra["panel"], autocompletion=completed)
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=setting.default,
        annotation=Annotated[kind, option],
    )
