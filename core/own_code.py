"""Users' classes and functions, by kind and name: lent to this process, and inherited by the workers that it forks.

    lend("model", "MyNet", MyNet)                 # a name that a registry knows beside its own and entry points
    found("model", "MyNet")                       # the object; None if there is none
    lend("model", "net.py:MyNet", load("net.py:MyNet"))

`net.py:MyNet` is what the file net.py calls MyNet. Only `load` executes a file, and it is called where a user starts a
simulation: services and messages look names up, which executes nothing. Standard library only.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from core.errors import ConfigError, did_you_mean

__all__ = ["KINDS", "found", "in_file", "lend", "load", "names", "plain_name", "when_changed"]

#: Of the objects; a fusion part's name starts with its own kind: `weigh.mine`.
KINDS = ("model", "dataset", "partition", "recipe", "part", "attack", "objective", "train")
IN_FILE = re.compile(r"(?P<file>[^,;]+\.py):(?P<name>[A-Za-z_]\w*)")

_lent: dict[tuple[str, str], Any] = {}
_changed: list[Callable[[], object]] = []


def lend(kind: str, name: str, thing: Any) -> None:
    """Make `thing` known by this name, in place of an earlier one, as when a notebook's cell is run again."""
    assert kind in KINDS, kind
    before = _lent.get((kind, name))
    _lent[kind, name] = thing
    if before is not None and before is not thing:
        for forget in _changed:
            forget()


def found(kind: str, name: str) -> Any:
    """The object lent by this name, or None."""
    return _lent.get((kind, name))


def names(kind: str) -> tuple[str, ...]:
    """The names of this kind, in the order in which they were lent."""
    return tuple(name for of_kind, name in _lent if of_kind == kind)


def when_changed(forget: Callable[[], object]) -> None:
    """Call `forget` whenever a name gets another object: for caches by name."""
    _changed.append(forget)


def in_file(text: str) -> bool:
    """Whether the text is the name of something in a file, such as `net.py:MyNet`."""
    return IN_FILE.fullmatch(text) is not None


def plain_name(text: str) -> str:
    """A name without its file.

    >>> plain_name("nets/net.py:MyNet"), plain_name("cnn")
    ('MyNet', 'cnn')
    """
    return re.sub(r"^.*\.py:", "", text)


def load(text: str) -> Any:
    """The object of `FILE.py:NAME`; the file is executed once per content, and its folder is importable for it."""
    match = IN_FILE.fullmatch(text)
    if match is None:
        raise ConfigError(f"{text!r}: write FILE.py:NAME, such as net.py:MyNet")
    module = _module(Path(match["file"]).expanduser(), text)
    if not hasattr(module, match["name"]):
        known = [name for name in vars(module) if not name.startswith("_")]
        raise ConfigError(f"{match['file']}: has no {match['name']!r}{did_you_mean(match['name'], known)}")
    return getattr(module, match["name"])


def _module(path: Path, text: str) -> ModuleType:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{text}: {path}: {(error.strerror or str(error)).lower()}; give the path of a file"
        ) from None
    digest = hashlib.sha256(str(path.resolve()).encode() + data).hexdigest()[:16]
    name = f"edgestill_own_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)  # last: a file models.py beside it must not hide ours
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a user's file may raise anything
        del sys.modules[name]
        raise ConfigError(f"{path}: does not load ({type(error).__name__}: {error})") from error
    return module
