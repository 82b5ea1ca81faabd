"""The tables [provision] and [[group]] of fleet.toml.

    [provision]
    out = "kits"                     # folder for kits and identities, relative to this file
    host = "broker.example"          # address of the broker for devices; default [broker] host
    secrets = "secrets.toml"         # Wi-Fi passwords
    wheels = "card"                  # or fleet, network, none: kits/wheel_set.py
    wheels_url = "http://10.0.0.2:8090"    # of `edgestill kit serve`: boards fetch there what their card does not have
    packages = ["./my_models"]       # the user's own: firmware_configs/kits/own_packages.py

    [[group]]
    name = "pi"
    board = "rpi-4"                  # edgestill board list
    count = 3                        # pi-01, pi-02, pi-03; or devices = ["kitchen", "attic"]
    prototype = "cnn:w1"             # one of [prototypes] names; or prototype = "cnn" and precision = "w1"
    data = "/var/lib/edgestill/samples.npz"
    wifi = "home"                    # of the secrets file
    [group.settings.train]           # any other key of agent.toml
    threads = 2

The aggregator reads its own tables of the same file. A device's settings are its board's, then its group's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta

from core.config_keys import read_toml, sub_table
from core.limits import MEGABYTES
from core.settings import Settings, read, within
from edge_agent.config import Kind

__all__ = [
    "ENROL",
    "STATE_DIR",
    "GroupConfig",
    "ProvisionConfig",
    "certificate_days",
    "kits_folder",
    "provision_table",
    "read_boards_dir",
]

STATE_DIR = "/var/lib/edgestill"
#: Keys in the kit; keys generated on the board, certified after approval, or for the claim alone.
Enrol = Literal["off", "approve", "claim"]
ENROL = get_args(Enrol)
#: All wheels go with the cards; boards fetch them from the fleet's machine, or from pip's index; they have edgestill.
Wheels = Literal["card", "fleet", "network", "none"]
Python = Literal["3.10", "3.11", "3.12", "3.13"]


class ProvisionConfig(Settings, frozen=True, kw_only=True):
    """The table [provision]."""

    out: Path | None = None
    host: str | None = None
    port: Annotated[int, within(1, 65535)] | None = None
    server_names: Annotated[tuple[str, ...], Meta(description="further names in the broker's certificate")] = ()
    days: Annotated[int, within(1, 3650, "validity of device certificates")] = 825
    authority_days: Annotated[int, within(1, 36500)] = 3650
    secrets: Annotated[Path, Meta(description="Wi-Fi passwords: firmware_configs/secrets.py")] | None = None
    wheels: Annotated[Wheels, Meta(description="where boards get what they install")] = "card"
    wheels_url: Annotated[str, Meta(description="of `edgestill kit serve`, as boards see it")] | None = None
    packages: Annotated[tuple[str, ...], Meta(description="folders, wheels and requirements of the user's own")] = ()
    torch: Annotated[str, Meta(description="an index, a folder, or system: kits/torch_source.py")] | None = None
    boards_dir: Annotated[Path, Meta(description="board profiles of the user's own")] | None = None
    enrol: Enrol = "off"
    claim_days: Annotated[int, within(1, 90)] = 7
    broker_mb: Annotated[int, within(64, MEGABYTES.most, "memory of the broker, in addition to retained messages")] = (
        1024
    )


class GroupConfig(Settings, frozen=True, kw_only=True):
    """A table [[group]]."""

    name: str
    board: str
    count: Annotated[int, within(1, 10_000)] | None = None
    devices: tuple[str, ...] = ()
    prototype: str
    precision: str | None = None
    update: Kind = "job"
    delta_bits: int | None = None
    data: str = f"{STATE_DIR}/samples.npz"
    graph: Path | None = None
    os: tuple[str, ...] = ()
    python: Annotated[Python, Meta(description="of the board's system, if not that of its profile")] | None = None
    torch: str | None = None
    wifi: str | None = None
    enrol: Enrol | None = None
    settings: Mapping[str, Any] = {}


def kits_folder(path: Path | str) -> Path | None:
    """The output folder of a fleet.toml; None if it is not a manifest. Needs no secrets."""
    file = read_toml(path)
    if "group" not in file and "provision" not in file:
        return None
    return provision_table(file, Path(path)).out or Path(path).resolve().parent / "kits"


def certificate_days(path: Path | str) -> int:
    """The validity of device certificates in a fleet.toml, in days. Needs no secrets."""
    return provision_table(read_toml(path), Path(path)).days


def provision_table(file: Mapping[str, Any], path: Path, wheels: str | None = None) -> ProvisionConfig:
    """The table [provision] of a fleet.toml; `wheels` is a flag that overrides it."""
    table, base = sub_table(file, "provision", str(path)), path.resolve().parent
    return read(ProvisionConfig, table, f"{path} [provision]", base=base, flags={"wheels": wheels})


def read_boards_dir(path: Path) -> Path | None:
    """The folder with the user's board profiles that the fleet.toml at `path` names, if it names one."""
    return provision_table(read_toml(path), path).boards_dir
