"""What flashing sees of a card: names and bytes to read, and a plan to carry out, whatever the card is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from firmware_configs.kits.bootfiles import FIRSTBOOT
from firmware_configs.kits.kit import KitFile

__all__ = ["BEFORE", "HOME", "JETSON_HOME", "PLACES", "UNITS", "WANTED", "WHEELS", "Card", "Plan", "Put"]

#: The folder of edgestill on a boot partition; one folder below it per kit.
HOME = "edgestill"
#: Files of the user's that flashing has replaced, as they were before.
BEFORE = f"{HOME}/before"
#: In HOME too: packages for boards without a network, hundreds of MB.
WHEELS = "wheels"
#: Kits on the root file system of a Jetson.
JETSON_HOME = "var/lib/edgestill-kits"
UNITS = "etc/systemd/system"
WANTED = f"{UNITS}/multi-user.target.wants/{FIRSTBOOT}"
#: Every file outside of a kit's own folder that a plan may put in place.
PLACES = ("cmdline.txt", "network-config", "meta-data", "user-data", f"{UNITS}/{FIRSTBOOT}", WANTED)


@dataclass(frozen=True, slots=True)
class Put:
    """One file that takes the place of what is there, or a link, for file systems that have them."""

    path: str
    data: bytes = b""
    mode: int = 0o644
    link: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a card is to hold.

    Nothing on a card refers to `folder` until `puts` do: they are put in order, and the last of them decides which kit
    the board boots with.
    """

    device: str
    family: str
    folder: str  # where the kit goes, below the top of the card
    files: Mapping[str, KitFile]  # in it
    puts: tuple[Put, ...]  # outside of it, only those that change something
    before: Mapping[str, bytes] = field(default_factory=dict)  # the user's own, to keep in BEFORE
    old: tuple[str, ...] = ()  # folders of earlier kits, to remove at the end
    notes: tuple[str, ...] = ()  # for the user to know


class Card(Protocol):
    """A boot partition, or the root file system of a Jetson."""

    @property
    def name(self) -> str:
        """For messages."""

    def names(self, folder: str = "") -> list[str]:
        """What a folder holds, sorted; nothing if there is no such folder."""

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None if there is none."""

    def link(self, path: str) -> str | None:
        """Where a link leads; None if there is none."""

    def write(self, plan: Plan) -> None:
        """Carry out the plan, compare what the card then holds: what was there before or all of it, no mixture."""
