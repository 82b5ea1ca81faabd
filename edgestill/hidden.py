"""Finds a user's `models.py` or `wire/` that hides a package of edgestill: first on the import path, it would be
imported instead. Checked when edgestill is imported; standard library only.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

__all__ = ["PACKAGES", "hidden_packages", "refuse_hidden"]

#: The top-level packages of the distribution beside `edgestill` itself.
PACKAGES = (
    "core",
    "wire",
    "transport",
    "quant",
    "models",
    "edge_agent",
    "aggregator",
    "firmware_configs",
    "fleet",
)
HOME = Path(__file__).resolve().parents[1]


def hidden_packages() -> dict[str, Path]:
    """The packages that an import would take from elsewhere, and from where."""
    hidden = {}
    for name in PACKAGES:
        place = _place(name)
        if place is not None and place != HOME / name:
            hidden[name] = place
    return hidden


def _place(name: str) -> Path | None:
    """The folder, or the file, that an import of `name` takes; None if there is none."""
    try:
        spec = sys.modules[name].__spec__ if name in sys.modules else find_spec(name)
    except (AttributeError, ImportError, ValueError):  # a module that a program has made by hand
        return Path(name)
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).resolve()
    return None if spec.origin is None else Path(spec.origin).resolve()


def refuse_hidden() -> None:
    """Raise `ImportError`, in one line, if a package of edgestill is hidden; `python -m edgestill` prints that line."""
    hidden = hidden_packages()
    if not hidden:
        return
    places = " and ".join(f"{place} hides edgestill's package '{name}'" for name, place in hidden.items())
    text = f"{places}; rename {'them' if len(hidden) > 1 else 'it'}, or work in another folder"
    if sys.argv[:1] == ["-m"]:  # before `edgestill.__main__` could report an error in one line
        sys.stderr.write(f"edgestill: {text}\n")
        raise SystemExit(3)
    raise ImportError(text)
