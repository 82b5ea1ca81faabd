"""What the shell completes: names of datasets, recipes, prototypes and so on, and the devices and models of a fleet.

Installed by `edgestill --install-completion`. Each function is called in a new process whenever the key is pressed, so
it imports only the module with the names: no torch. A fleet.toml that cannot be read completes to nothing. bash ends a
word at a colon: there a prototype is completed from its architecture on (`cnn<tab>`), not after `cnn:`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from glob import escape, glob
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from core.errors import EdgestillError

if TYPE_CHECKING:
    from aggregator.config.fleet import FleetConfig

__all__ = [
    "SETTING_NAMES",
    "attacks",
    "boards",
    "datasets",
    "devices",
    "experiments",
    "models",
    "partitions",
    "prototypes",
    "recipes",
]


def datasets(incomplete: str) -> list[str]:
    from fleet.data.registry import DATASETS

    paths = [f"{path}/" if Path(path).is_dir() else path for path in sorted(glob(escape(incomplete) + "*"))]
    return _starting(DATASETS, incomplete) + (paths if incomplete else [])


def recipes(incomplete: str) -> list[str]:
    from aggregator.recipes.catalogue import recipe_names

    return _starting(recipe_names(), incomplete)


def prototypes(incomplete: str) -> list[str]:
    """architecture:precision, after the last comma of a list."""
    from models.registry import names
    from quant.precision import PRECISIONS

    return _last_of_list([f"{name}:{precision}" for name in names() for precision in PRECISIONS], incomplete)


def partitions(incomplete: str) -> list[str]:
    from fleet.simulation.config import PARTITIONS

    return _starting(PARTITIONS.split(", "), incomplete)


def attacks(incomplete: str) -> list[str]:
    """NAME: for NAME:COUNT, after the last comma of a list."""
    from fleet.attacks.builtin import ATTACKS
    from fleet.attacks.plugins import own_names

    return _last_of_list([f"{name}:" for name in (*ATTACKS, *own_names())], incomplete)


def boards(incomplete: str) -> list[str]:
    """Names of board profiles, after the last comma of a list."""
    from firmware_configs.boards import boards as profiles

    return _last_of_list(profiles(), incomplete)


def experiments(incomplete: str) -> list[str]:
    from fleet.experiments.registry import names

    return _starting(["list", *names()], incomplete)


def devices(ctx: typer.Context, incomplete: str) -> list[str]:
    """The devices of the fleet.toml that --config names, if it is on the line already, else of ./fleet.toml."""
    config = _fleet(ctx)
    return _starting(config.devices if config else (), incomplete)


def models(ctx: typer.Context, incomplete: str) -> list[str]:
    """The prototypes of the same fleet: each is the name of its newest model."""
    config = _fleet(ctx)
    return _starting(config.prototypes if config else (), incomplete)


#: Settings of a simulation whose options complete names.
SETTING_NAMES: dict[str, Callable[[str], list[str]]] = {
    "dataset": datasets,
    "devices": boards,
    "prototypes": prototypes,
    "partition": partitions,
    "recipe": recipes,
    "attack": attacks,
}


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _last_of_list(names: Iterable[str], incomplete: str) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _starting(names, last)]


def _fleet(ctx: typer.Context) -> FleetConfig | None:
    from aggregator.config.fleet import load_fleet_config

    try:
        return load_fleet_config(Path(ctx.params.get("config") or "fleet.toml"))
    except (EdgestillError, OSError):
        return None
