"""The interface of a card: names and bytes to read, and a plan to execute, independent of the kind of target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from firmware_configs.kits.bootfiles import FIRSTBOOT
from firmware_configs.kits.kit import KitFile

__all__ = [
    "BEFORE",
    "ERROR",
    "HOME",
    "JETSON_HOME",
    "PLACES",
    "UNITS",
    "WANTED",
    "WHEELS",
    "Card",
    "CardWheel",
    "Plan",
    "Put",
    "WheelPlan",
]

#: The folder of edgestill on a boot partition; one folder below it per kit.
HOME = "edgestill"
#: The user's own files that flashing has replaced, in their original form.
BEFORE = f"{HOME}/before"
#: In HOME, and in JETSON_HOME: what boards install, hundreds of MB.
WHEELS = "wheels"
#: Beside the kits: why the last installation has failed, written by the board.
ERROR = "last-error.txt"
#: Kits on the root file system of a Jetson.
JETSON_HOME = "var/lib/edgestill-kits"
UNITS = "etc/systemd/system"
WANTED = f"{UNITS}/multi-user.target.wants/{FIRSTBOOT}"
#: Every file outside of a kit's own folder that a plan may put in place.
PLACES = ("cmdline.txt", "network-config", "meta-data", "user-data", f"{UNITS}/{FIRSTBOOT}", WANTED)


@dataclass(frozen=True, slots=True)
class Put:
    """A file that replaces an existing one, or a link, for file systems that support them."""

    path: str
    data: bytes = b""
    mode: int = 0o644
    link: str | None = None


@dataclass(frozen=True, slots=True)
class CardWheel:
    """A wheel of this machine, for a card."""

    path: Path
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class WheelPlan:
    """Wheels in a folder of a card; nothing refers to them but the kit's lock, by their hashes."""

    folder: str
    wheels: Mapping[str, CardWheel]  # all that belong there, by name
    root: bool = False  # on the root file system of an image, not on its boot partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The planned contents of a card.

    Nothing on a card refers to `folder` before `puts` do: they are written in order, and the last one decides which kit
    the board boots with.
    """

    device: str
    family: str
    folder: str  # of the kit, relative to the top of the card
    files: Mapping[str, KitFile]  # in it
    puts: tuple[Put, ...]  # outside of it, only actual changes
    before: Mapping[str, bytes] = field(default_factory=dict)  # the user's own, to keep in BEFORE
    old: tuple[str, ...] = ()  # folders of earlier kits, to remove at the end
    notes: tuple[str, ...] = ()  # for the user
    wheels: WheelPlan | None = None


class Card(Protocol):
    """A boot partition, or the root file system of a Jetson."""

    @property
    def name(self) -> str:
        """For messages."""

    def names(self, folder: str = "") -> list[str]:
        """The entries of a folder, sorted; empty if there is no such folder."""

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None if there is none."""

    def link(self, path: str) -> str | None:
        """The target of a link; None if there is none."""

    def free(self) -> int:
        """Bytes that are free."""

    def root_free(self) -> int | None:
        """Bytes that are free on the root file system, where wheels may go too; None if it cannot be written."""

    def digest(self, path: str) -> str | None:
        """SHA-256 of a large file, in hex; None if there is none."""

    def write(self, plan: Plan) -> None:
        """Execute the plan atomically, and verify the contents of the card."""
