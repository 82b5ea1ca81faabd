"""Converts settings, as users write them, into the configuration of a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.errors import ConfigError
from core.settings import checked
from edge_agent.training.params import LocalTraining, local_training
from fleet.simulation.config import DEFAULT_ENGINE, SimulationConfig
from fleet.simulation.settings.checks import composed
from fleet.simulation.settings.layers import about
from fleet.simulation.settings.table import LOCAL, OWN, SETTINGS, TIME
from fleet.simulation.settings.text_forms import parse_devices
from fleet.virtual.config import VirtualTime

__all__ = ["configure"]


def configure(given: Mapping[str, Any]) -> SimulationConfig:
    """The configuration of these settings; a setting that is None or missing has its default."""
    said = {key: value for key, value in given.items() if value is not None}
    said["engine"] = said.get("engine") or DEFAULT_ENGINE
    _read_lr(said)
    if "local_epochs" in said and "local_steps" in said:
        with about("local_steps"):
            raise ConfigError("give either --local-epochs or --local-steps, not both")
    hardware = said.get("hardware")
    with about("devices"):
        boards = parse_devices(said.get("devices", SETTINGS["devices"].default), hardware and str(hardware))
    values = {OWN[key].name: _value(key, value) for key, value in said.items() if key in OWN}
    values["devices"], values["virtual"] = len(boards), _virtual(boards, said)
    values["training"] = _training(said, values)
    return SimulationConfig(**values)


def _read_lr(said: dict[str, Any]) -> None:
    """A flag's text as a number; `auto` is the default's name."""
    if "lr" in said:
        with about("lr"):
            said["lr"] = checked(SETTINGS["lr"], said["lr"], "--lr")
        if said["lr"] == "auto":
            del said["lr"]


def _value(key: str, value: Any) -> Any:
    parse = OWN[key].parse
    with about(key):
        return value if parse is None else parse(value)


def _training(said: Mapping[str, Any], values: Mapping[str, Any]) -> LocalTraining:
    """The hyper-parameters of local training; FedProx's mu may come from the recipe."""
    asked = {key.removeprefix("local_"): said[key] for key in LOCAL if key in said}
    for key in LOCAL.keys() & said.keys():
        with about(key):
            local_training(**{key.removeprefix("local_"): said[key]})
    if "prox" not in asked:
        recipe = composed(values.get("recipe", SETTINGS["recipe"].default), values.get("fusion", {}))
        asked["prox"] = recipe.local.get("prox", 0.0)
    return local_training(**asked)


def _virtual(boards: tuple[str, ...], said: Mapping[str, Any]) -> VirtualTime | None:
    """The settings of virtual time, which require --virtual-clock."""
    asked: dict[str, Any] = {key: said[key] for key in TIME if key in said}
    asked |= {key: str(path) for key, path in asked.items() if isinstance(path, Path)}
    if said.get("virtual_clock"):
        return VirtualTime(boards=boards, **{TIME[key].name: value for key, value in asked.items()})
    for key, value in asked.items():
        if value != TIME[key].default:
            with about(key):
                raise ConfigError(f"{SETTINGS[key].flag} requires --virtual-clock")
    return None
