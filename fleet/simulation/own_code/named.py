"""The names in a simulation's settings that may be a user's own, and the files behind them.

Settings are as users write them, or as `run.json` holds them: `prototypes` a text or a list, `fusion` a table or flags.
`own_models` has the files of prototypes, which fleets know by their names alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core import own_code
from core.errors import ConfigError
from fleet.simulation.settings.layers import about
from fleet.simulation.settings.text_forms import parse_prototypes

if TYPE_CHECKING:
    from fleet.simulation.config import SimulationConfig

__all__ = ["PARTS", "check_reach", "lend_files", "lent_only", "names_in", "refuse_files_inside"]

PARTS = ("screen", "trust", "weigh", "average", "teach")
SIMPLE = ("dataset", "partition", "recipe", "objective", "train")
#: Kinds that processes of their own, over MQTT, would need.
OF_PROCESSES = ("model", "recipe", "part", "objective", "train")


def names_in(settings: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Setting, kind and name of whatever these settings name; parts as `weigh.mine`, prototypes with their files."""
    files = settings.get("own_models") or {}
    prototypes = settings.get("prototypes") or ()
    for prototype in parse_prototypes(prototypes) if isinstance(prototypes, str) else prototypes:
        arch = prototype.partition(":")[0]
        yield "prototypes", "model", files.get(arch, arch)
    for key in SIMPLE:
        if isinstance(settings.get(key), str) and settings[key]:
            yield key, key, settings[key]
    for kind, name in _parts(settings.get("fusion") or {}):
        yield "fusion", "part", f"{kind}.{name}"
    for order in (settings.get("attack") or "").split(","):
        match = re.match(r"\s*(.*\.py:[A-Za-z_]\w*|[\w-]+)", order)
        if match:
            yield "attack", "attack", match[1]


def _parts(fusion: Any) -> Iterator[tuple[str, str]]:
    pairs = fusion.items() if isinstance(fusion, Mapping) else (text.partition("=")[::2] for text in fusion)
    for key, value in pairs:
        if key.strip() in PARTS and isinstance(value, str | list | tuple):
            for name in value.split(",") if isinstance(value, str) else value:
                yield key.strip(), str(name).strip()


def _file_of(name: str, kind: str) -> str:
    """The name in a file, without the kind of a part."""
    return name.partition(".")[2] if kind == "part" else name


def lend_files(settings: Mapping[str, Any]) -> None:
    """Execute the files that the settings name, and lend what they name, so that it is known by that name."""
    from fleet.simulation.own_code.objects import lend_as

    for key, kind, name in names_in(settings):
        text = _file_of(name, kind)
        if own_code.in_file(text):
            with about(key):
                lend_as(kind, own_code.plain_name(name) if kind == "model" else name, own_code.load(text))


def lent_only(settings: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The names that are known in this process alone: lent by a program, and in no file."""
    return [
        (key, kind, name)
        for key, kind, name in names_in(settings)
        if own_code.found(kind, name) is not None and not own_code.in_file(_file_of(name, kind))
    ]


def is_own(kind: str, name: str) -> bool:
    """Whether a name of `names_in` is a user's own, lent or in a file."""
    return own_code.in_file(_file_of(name, kind)) or own_code.found(kind, name) is not None


def refuse_files_inside(settings: Mapping[str, Any], folder: Path) -> None:
    """Refuse to execute a file that lies in a run's folder: whoever sent the folder could have put it there."""
    for _, kind, name in names_in(settings):
        text = _file_of(name, kind)
        if own_code.in_file(text):
            path = Path(text.rpartition(":")[0]).expanduser().resolve()
            if path.is_relative_to(folder.resolve()):
                raise ConfigError(
                    f"{folder}: names {path.name} inside itself, which is not executed; move it elsewhere"
                )


def check_reach(config: SimulationConfig) -> None:
    """Refuse a user's own code where it does not reach the processes that need it."""
    settings = {key: getattr(config, key) for key in ("prototypes", "own_models", "fusion", "attack", *SIMPLE)}
    if config.engine == "ray":
        for key, kind, name in lent_only(settings):
            if kind != "dataset":
                with about(key):
                    plain = _file_of(name, kind)
                    raise ConfigError(
                        f"{plain} is known in this process alone, which --engine ray does not reach; write it to a "
                        f"file and give 'FILE.py:{plain}', or use --engine processes"
                    )
    if config.transport == "mqtt":
        for key, kind, name in names_in(settings):
            if kind in OF_PROCESSES and is_own(kind, name):
                with about(key):
                    raise ConfigError(
                        f"{_file_of(name, kind)} is your own code, which agents over MQTT do not have; use --transport "
                        "memory, or install it as a package (docs/prototypes.md)"
                    )
