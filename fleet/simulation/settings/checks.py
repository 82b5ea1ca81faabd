"""Checks of a simulation's configuration: every setting alone, then combinations."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from aggregator.recipes.catalogue import PERSONAL, Recipe, find_recipe
from aggregator.tracking.targets import parse_targets
from core.errors import ConfigError, did_you_mean
from core.limits import Range
from core.settings.compute_names import check_device_name
from fleet.attacks.builtin import check_over_mqtt, parse_attacks, seat
from fleet.partition import uses_alpha
from fleet.simulation.config import ENGINES, FLOATS, SCORE_DEVICES, TRANSPORTS, UPDATES, SimulationConfig
from fleet.simulation.own_code.local import check_known
from fleet.simulation.own_code.named import check_reach
from fleet.simulation.settings.layers import about
from fleet.simulation.settings.panels import check_ranges
from models.spec import parse_prototype

__all__ = ["check_simulation", "composed"]


def check_simulation(config: SimulationConfig) -> None:
    """Raise `ConfigError` for the first invalid setting or combination."""
    with about("prototypes"):
        _check_prototypes(config.prototypes)
    check_ranges(config)
    with about("source_classes"):
        Range(0, 9999).check(max(config.source_classes, default=0), "--source-classes")
    if config.devices < len(config.prototypes):
        with about("devices", "prototypes"):
            raise ConfigError(
                f"{config.devices} devices for {len(config.prototypes)} prototypes; give each one at least one"
            )
    if not 0 < config.fraction <= 1:
        with about("fraction"):
            raise ConfigError(f"--fraction {config.fraction:g}; give a number above 0 and at most 1")
    _check_words(config)
    with about("compute"):
        check_device_name(config.compute, registered=_registered())
    with about("partition"):
        uses_alpha(config.partition)
    recipe = composed(config.recipe, config.fusion)
    with about("update", "recipe"):
        recipe.check_update(config.update)
    if config.address and config.engine != "ray":
        with about("address"):
            raise ConfigError(f"--address {config.address} requires --engine ray")
    with about("track"):
        parse_targets(config.track)
    _check_own_training(config, recipe)
    check_reach(config)
    _check_virtual(config)
    with about("attack"):
        _check_attack(config)


def _registered() -> str:
    """The name of an accelerator that this process has registered with torch; nothing is imported for it."""
    torch = sys.modules.get("torch")
    return "" if torch is None else str(torch._C._get_privateuse1_backend_name())


def composed(name: str, fusion: Mapping[str, Any]) -> Recipe:
    """The recipe with the fields that are overridden; an error is about the one or the other."""
    with about("recipe"):
        find_recipe(name)
    with about("fusion", "recipe"):
        return find_recipe(name, fusion)


def _check_own_training(config: SimulationConfig, recipe: Recipe) -> None:
    """An own objective or loop is the whole of local training: nothing else may add to the loss."""
    for key in ("objective", "train"):
        name = getattr(config, key)
        with about(key):
            check_known(key, name)
            if name and (recipe.side_artifact is not None or PERSONAL in recipe.local):
                raise ConfigError(
                    f"--{key} {name}: recipe {recipe.name} has its own objective on devices; give another recipe, such "
                    "as fedavg"
                )
    if config.objective and config.train:
        with about("train"):
            raise ConfigError("give either --objective or --train, not both: a loop has its own objective")


def _check_attack(config: SimulationConfig) -> None:
    orders = parse_attacks(config.attack)
    seat(orders, config.devices, prototypes=len(config.prototypes), seed=config.seed)
    if config.transport == "mqtt":
        check_over_mqtt(orders)


def _check_prototypes(prototypes: tuple[str, ...]) -> None:
    if not prototypes:
        raise ConfigError("no prototypes; give at least one, such as --prototypes cnn:fp32")
    if len(set(prototypes)) < len(prototypes):
        raise ConfigError(f"prototype given twice in {','.join(prototypes)}; each may be given once")
    for prototype in prototypes:
        arch, precision = parse_prototype(prototype)
        if prototype != f"{arch}:{precision}":
            raise ConfigError(f"prototype {prototype!r}: give its precision too, such as {arch}:{precision}")


def _check_words(config: SimulationConfig) -> None:
    for key, known in (
        ("transport", TRANSPORTS),
        ("floats", FLOATS),
        ("score_devices", SCORE_DEVICES),
        ("update", UPDATES),
        ("engine", ENGINES),
    ):
        word = getattr(config, key)
        if word not in known:
            with about(key):
                flag = f"--{key.replace('_', '-')}"
                raise ConfigError(f"{flag} {word!r}; known: {' '.join(known)}{did_you_mean(word, known)}")


def _check_virtual(config: SimulationConfig) -> None:
    virtual = config.virtual
    if virtual is None:
        return
    if config.transport != "memory":
        with about("transport", "virtual_clock"):
            raise ConfigError("virtual time needs --transport memory: processes over MQTT take real time")
    if len(virtual.boards) != config.devices:
        raise ConfigError(f"{len(virtual.boards)} boards for {config.devices} devices; give as many")
    if virtual.buffer > config.devices:
        with about("buffer"):
            raise ConfigError(f"--buffer {virtual.buffer}: there are {config.devices} devices; give at most as many")
