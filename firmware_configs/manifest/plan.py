"""What a manifest is when it has been read: the fleet, and every device with its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from core.errors import ConfigError, did_you_mean
from firmware_configs.boards import Board
from firmware_configs.kits.kit import KitFetch
from firmware_configs.kits.resolve import Target
from firmware_configs.kits.torch_source import TorchSource
from firmware_configs.secrets import Wifi

__all__ = ["DevicePlan", "FirstModels", "Manifest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePlan:
    """One device of the manifest."""

    id: str
    group: str
    board: Board
    os: tuple[str, ...]
    wifi: Wifi | None
    enrol: str  # one of ENROL
    graph: Path | None  # put into the kit as model.onnx
    first_graph: bool  # model.onnx is the fleet's first model: provisioning makes it
    targets: Mapping[str, Target]  # what wheels are for, by OS family
    torch: TorchSource | None  # None: that of the lock
    tables: Mapping[str, Mapping[str, Any]]  # of its agent.toml: values that differ from the defaults

    @property
    def mode(self) -> str:
        """How it trains: full or light."""
        return str(self.tables["train"]["mode"])

    def facts(self) -> dict[str, Any]:
        """A summary for display; the Wi-Fi only by its name."""
        flat = {f"{name}.{key}": value for name, table in self.tables.items() for key, value in table.items()}
        told: dict[str, Any] = {"group": self.group, "board": self.board.name, "os": " ".join(self.os)}
        told["python"] = " ".join(dict.fromkeys(target.python for target in self.targets.values()))
        if self.wifi is not None:
            told["wifi"] = self.wifi.ssid
        if self.enrol != "off":
            told["enrol"] = self.enrol
        return {**told, **{key: value for key, value in flat.items() if not isinstance(value, dict)}}


class FirstModels(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs of the fleet's first models, in addition to their prototypes."""

    input_shape: tuple[int, ...]
    classes: int
    latent: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A fleet to be provisioned."""

    path: Path
    fleet: str
    out: Path
    host: str
    port: int
    server_names: tuple[str, ...]
    days: int
    authority_days: int
    claim_days: int
    broker_mb: int  # memory of the broker, in addition to retained messages of devices
    wheels: str  # card, fleet, network or none
    fetch: KitFetch | None  # where boards fetch wheels that their card does not have
    packages: tuple[str, ...]
    boards_dir: Path | None  # the user's own board profiles
    aggregator_key: Path
    first_models: FirstModels
    devices: tuple[DevicePlan, ...]

    def device(self, name: str) -> DevicePlan:
        """The device called `name`."""
        for device in self.devices:
            if device.id == name:
                return device
        hint = did_you_mean(name, (d.id for d in self.devices))
        raise ConfigError(f"{self.path}: no device {name!r}{hint}")

    def facts(self) -> dict[str, dict[str, Any]]:
        """The resolved manifest, device by device, without secrets."""
        own = {"out": str(self.out), "broker": f"{self.host}:{self.port}", "days": self.days, "wheels": self.wheels}
        own |= {"wheels_url": self.fetch.url} if self.fetch else {}
        return {"provision": own, **{f"device {device.id}": device.facts() for device in self.devices}}
