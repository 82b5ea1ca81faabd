"""What a simulation cannot be: every setting by itself, then those that need each other."""

from __future__ import annotations

from aggregator.recipes.catalogue import find_recipe
from core.errors import ConfigError, did_you_mean
from core.limits import Range
from fleet.attacks.builtin import check_over_mqtt, parse_attacks, seat
from fleet.simulation.config import ENGINES, FLOATS, SCORE_DEVICES, TRANSPORTS, UPDATES, SimulationConfig
from fleet.simulation.settings.panels import check_ranges
from models.spec import parse_prototype

__all__ = ["check_simulation"]


def check_simulation(config: SimulationConfig) -> None:
    """`ConfigError` for the first thing that cannot be."""
    _check_prototypes(config.prototypes)
    check_ranges(config)
    Range(0, 9999).check(max(config.source_classes, default=0), "--source-classes")
    if config.devices < len(config.prototypes):
        raise ConfigError(
            f"{config.devices} devices for {len(config.prototypes)} prototypes; give each one at least one"
        )
    if not 0 < config.fraction <= 1:
        raise ConfigError(f"fraction {config.fraction}; give a number above 0 and at most 1")
    _check_words(config)
    find_recipe(config.recipe, config.fusion).check_update(config.update)
    if config.engine not in ENGINES:
        raise ConfigError(f"engine {config.engine!r}; known: {' '.join(ENGINES)}{did_you_mean(config.engine, ENGINES)}")
    if config.address and config.engine != "ray":
        raise ConfigError(f"--address {config.address} goes with --engine ray")
    _check_virtual(config)
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
    for what, word, known in (
        ("transport", config.transport, TRANSPORTS),
        ("floats", config.floats, FLOATS),
        ("--score-devices", config.score_devices, SCORE_DEVICES),
        ("update", config.update, UPDATES),
    ):
        if word not in known:
            raise ConfigError(f"{what} {word!r}; known: {' '.join(known)}")


def _check_virtual(config: SimulationConfig) -> None:
    virtual = config.virtual
    if virtual is None:
        return
    if config.transport != "memory":
        raise ConfigError("virtual time needs --transport memory: processes over MQTT take real time")
    if len(virtual.boards) != config.devices:
        raise ConfigError(f"{len(virtual.boards)} boards for {config.devices} devices; give as many")
    if virtual.buffer > config.devices:
        raise ConfigError(f"--buffer {virtual.buffer}: there are {config.devices} devices; give at most as many")
