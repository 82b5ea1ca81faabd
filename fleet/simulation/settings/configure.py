"""Converts settings, as users write them, into the configuration of a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.errors import ConfigError
from core.settings import checked
from edge_agent.training.params import LocalTraining, local_training
from fleet.simulation.config import DEFAULT_ENGINE, SimulationConfig
from fleet.simulation.own_code.named import lend_files
from fleet.simulation.settings.checks import composed
from fleet.simulation.settings.layers import about
from fleet.simulation.settings.table import LOCAL, OWN, SETTINGS, TIME
from fleet.simulation.settings.text_forms import own_models, parse_devices
from fleet.virtual.config import VirtualTime

__all__ = ["configure"]


def configure(given: Mapping[str, Any]) -> SimulationConfig:
    """The configuration of these settings; a setting that is None or missing has its default."""
    settings = {key: value for key, value in given.items() if value is not None}
    with about("prototypes"):
        files = own_models(settings.get("prototypes", ""))
    lend_files({**settings, "own_models": files})
    settings["engine"] = settings.get("engine") or DEFAULT_ENGINE
    _read_lr(settings)
    if "local_epochs" in settings and "local_steps" in settings:
        with about("local_steps"):
            raise ConfigError("give either --local-epochs or --local-steps, not both")
    hardware = settings.get("hardware")
    with about("devices"):
        boards = parse_devices(settings.get("devices", SETTINGS["devices"].default), hardware and str(hardware))
    values = {OWN[key].name: _value(key, value) for key, value in settings.items() if key in OWN}
    values["devices"], values["virtual"] = len(boards), _virtual(boards, settings)
    values["training"] = _training(settings, values)
    values["own_models"] = files
    return SimulationConfig(**values)


def _read_lr(settings: dict[str, Any]) -> None:
    """A flag's text as a number; `auto` is the default's name."""
    if "lr" in settings:
        with about("lr"):
            settings["lr"] = checked(SETTINGS["lr"], settings["lr"], "--lr")
        if settings["lr"] == "auto":
            del settings["lr"]


def _value(key: str, value: Any) -> Any:
    parse = OWN[key].parse
    with about(key):
        value = value if parse is None else parse(value)
    return tuple(value) if OWN[key].kind is tuple else value


def _training(settings: Mapping[str, Any], values: Mapping[str, Any]) -> LocalTraining:
    """The hyper-parameters of local training; FedProx's mu may come from the recipe."""
    given = {key.removeprefix("local_"): settings[key] for key in LOCAL if key in settings}
    for key in LOCAL.keys() & settings.keys():
        with about(key):
            local_training(**{key.removeprefix("local_"): settings[key]})
    if "prox" not in given:
        recipe = composed(values.get("recipe", SETTINGS["recipe"].default), values.get("fusion", {}))
        given["prox"] = recipe.local.get("prox", 0.0)
    return local_training(**given)


def _virtual(boards: tuple[str, ...], settings: Mapping[str, Any]) -> VirtualTime | None:
    """The settings of virtual time, which require --virtual-clock."""
    given: dict[str, Any] = {key: settings[key] for key in TIME if key in settings}
    given |= {key: str(path) for key, path in given.items() if isinstance(path, Path)}
    if settings.get("virtual_clock"):
        return VirtualTime(boards=boards, **{TIME[key].name: value for key, value in given.items()})
    for key, value in given.items():
        if value != TIME[key].default:
            with about(key):
                raise ConfigError(f"{SETTINGS[key].flag} requires --virtual-clock")
    return None
