"""From settings, as users write them, to the configuration of a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aggregator.recipes.catalogue import find_recipe
from core.errors import ConfigError
from core.settings import Field
from edge_agent.training.params import LocalTraining, local_training
from fleet.simulation.config import DEFAULT_ENGINE, SimulationConfig
from fleet.simulation.settings.table import LOCAL, OWN, SETTINGS, TIME
from fleet.simulation.settings.text_forms import parse_devices
from fleet.virtual.config import VirtualTime

__all__ = ["configure"]


def configure(given: Mapping[str, Any]) -> SimulationConfig:
    """The configuration that settings mean, as they are written; what is None or not there has its default."""
    said = {key: value for key, value in given.items() if value is not None}
    said["engine"] = said.get("engine") or DEFAULT_ENGINE
    if "local_epochs" in said and "local_steps" in said:
        raise ConfigError("give either --local-epochs or --local-steps, not both")
    hardware = said.get("hardware")
    boards = parse_devices(said.get("devices", SETTINGS["devices"].default), hardware and str(hardware))
    values = {OWN[key].name: _value(OWN[key], value) for key, value in said.items() if key in OWN}
    values["devices"], values["virtual"] = len(boards), _virtual(boards, said)
    values["training"] = _training(said, values)
    return SimulationConfig(**values)


def _value(field: Field, value: Any) -> Any:
    return value if field.parse is None else field.parse(value)


def _training(said: Mapping[str, Any], values: Mapping[str, Any]) -> LocalTraining:
    """Local training as it was asked for; FedProx's weight may be the recipe's."""
    asked = {key.removeprefix("local_"): said[key] for key in LOCAL if key in said}
    if "prox" not in asked:
        recipe = find_recipe(values.get("recipe", SETTINGS["recipe"].default), values.get("fusion", {}))
        asked["prox"] = recipe.local.get("prox", 0.0)
    return local_training(**asked)


def _virtual(boards: tuple[str, ...], said: Mapping[str, Any]) -> VirtualTime | None:
    """Virtual time as it was asked for; its settings mean nothing without it."""
    asked: dict[str, Any] = {key: said[key] for key in TIME if key in said}
    asked |= {key: str(path) for key, path in asked.items() if isinstance(path, Path)}
    if said.get("virtual_clock"):
        return VirtualTime(boards=boards, **{TIME[key].name: value for key, value in asked.items()})
    for key, value in asked.items():
        if value != TIME[key].default:
            raise ConfigError(f"{SETTINGS[key].flag} goes with --virtual-clock")
    return None
