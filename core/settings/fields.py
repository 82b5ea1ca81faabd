"""What the fields of a configuration struct say: kind, default, bounds, choices and help, read from their annotations.

    class TrainConfig(Settings, frozen=True, kw_only=True):
        mode: Literal["full", "light"] = "full"
        threads: Annotated[int, within(1, 1024, "threads of the training child")] = 1
        memory_mb: Annotated[int, within(64, None)] | None = None

annotation                          kind    in a file               as a text
bool                                bool    true                    1 true yes on, 0 false no off
int, float                          .       a number                7, 1e-3
str                                 str     a string                itself
Literal["a", "b"], Literal[1, 2]    str     one of them             one of them
Path                                Path    a string                itself
tuple[X, ...] of str, int, float,   tuple   a list                  a, b
    or Path
Mapping[str, Any]                   dict    a table                 none
a struct, or a dataclass            dict    a table, read by it     none

Each may be `X | None`; Meta stands inside, `Annotated[X, Meta(...)] | None`. `within` is Meta of a number. What counts
of Meta: `ge`, `le`, `description` and `extra`: {"secret": True} (messages and reprs hide the value), {"parse": f} (see
`Field.parse`), {"excludes": names} (fields that a file has said in vain where this one is given by a flag or a
variable), and what the reader of a description looks for, such as {"panel": "Training"} of `--help`.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Meta, inspect

__all__ = ["REQUIRED", "Field", "describe", "within"]


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
_ITEMS = {str: "strings", int: "whole numbers", float: "numbers", Path: "paths"}
_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    Path: "a path",
    dict: "a table",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One setting; `least` and `most` are both allowed, and None where nothing is said."""

    name: str
    kind: type  # bool, int, float, str, Path, tuple or dict
    default: Any = REQUIRED
    optional: bool = False  # X | None
    least: float | None = None
    most: float | None = None
    choices: tuple[Any, ...] = ()
    item: type = str  # of a tuple: str, int, float or Path
    table: type[Any] | None = None  # of a table that has a struct of its own
    help: str = ""
    secret: bool = False
    #: From a file's value, or a text, to the field's; ValueError says how to write it: "give two numbers, such as 3x4".
    parse: Callable[[Any], Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def flag(self) -> str:
        """As an option of the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def expected(self) -> str:
        """The kind in words, for messages."""
        return f"a list of {_ITEMS[self.item]}" if self.kind is tuple else _WORDS[self.kind]


def within(least: float | None, most: float | None, help_text: str = "", **extra: Any) -> Meta:
    """Meta of a number from `least` to `most`, both allowed."""
    return Meta(ge=least, le=most, description=help_text or None, extra=extra or None)


def describe(struct: Any) -> Mapping[str, Field]:
    """Every field of a configuration struct by its name, in order; TypeError for an annotation that is not one.

    A dataclass whose fields are annotated in the same way is described too.
    """
    return _described(struct)


@functools.cache
def _described(struct: type[Any]) -> Mapping[str, Field]:
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType | inspect.DataclassType)
    hints = typing.get_type_hints(struct)
    return MappingProxyType({own.name: _field(struct, own, hints[own.name]) for own in info.fields})


def _field(struct: type[Any], own: inspect.Field, hint: Any) -> Field:
    said = _facts(own.type)
    if "kind" not in said:
        raise TypeError(
            f"{struct.__name__}.{own.name}: no kind of setting is annotated so; see core/settings/fields.py"
        )
    if "choices" in said:
        said["choices"] = _in_order(hint)
    if not own.required:
        factory = own.default_factory
        said["default"] = own.default if factory is msgspec.NODEFAULT else factory()
    extra = said.get("extra", {})
    return Field(name=own.name, secret=extra.get("secret", False), parse=extra.get("parse"), **said)


def _in_order(hint: Any) -> tuple[Any, ...]:
    """The values of Literal, or of Literal | None, as they were written; msgspec sorts them."""
    literals = [hint, *typing.get_args(hint)]
    return next(typing.get_args(part) for part in literals if typing.get_origin(part) is typing.Literal)


def _facts(kind: inspect.Type) -> dict[str, Any]:
    """What an annotation says, as arguments of `Field`; without `kind` where it is none of those above."""
    if isinstance(kind, inspect.Metadata):
        help_text = (kind.extra_json_schema or {}).get("description", "")
        return {**_facts(kind.type), "help": help_text, "extra": MappingProxyType(kind.extra or {})}
    if isinstance(kind, inspect.UnionType):
        others = [member for member in kind.types if not isinstance(member, inspect.NoneType)]
        return {**_facts(others[0]), "optional": True} if len(others) == 1 else {}
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        if kind.gt is not None or kind.lt is not None:
            return {}
        return {"kind": int if isinstance(kind, inspect.IntType) else float, "least": kind.ge, "most": kind.le}
    if isinstance(kind, inspect.LiteralType):
        return {"kind": type(kind.values[0]), "choices": kind.values}
    if isinstance(kind, inspect.VarTupleType):
        item = _facts(kind.item_type).get("kind")
        return {"kind": tuple, "item": item} if item in _ITEMS else {}
    if isinstance(kind, inspect.StructType | inspect.DataclassType):
        return {"kind": dict, "table": kind.cls}
    if isinstance(kind, inspect.CustomType):
        return {"kind": Path} if kind.cls is Path else {}
    plain = {inspect.BoolType: bool, inspect.StrType: str, inspect.DictType: dict}
    return {"kind": plain[type(kind)]} if type(kind) in plain else {}
