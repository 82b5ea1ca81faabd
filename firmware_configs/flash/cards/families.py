"""Detects the OS family of a card from its files; an error if it is ambiguous, never a guess.

    cloud-init   user-data next to config.txt and cmdline.txt: Raspberry Pi OS Trixie, Ubuntu for the Pi
    bookworm     config.txt, cmdline.txt and an issue.txt of a Raspberry Pi OS that has /boot/firmware; no user-data
    jetson       etc/nv_tegra_release: the root file system of a JetPack

Raspberry Pi OS names its date in issue.txt. Bookworm was released on 2023-10-10; older systems mount the partition
elsewhere. Trixie was released on 2025-10-01 and Bookworm continues as "legacy": a later image without user-data may be
either, so the user has to specify it.
"""

from __future__ import annotations

import re

from core.errors import ConfigError, did_you_mean
from firmware_configs.flash.cards.card import Card

__all__ = ["RELEASE", "check_family", "detect_family"]

RELEASE = "etc/nv_tegra_release"  # of every JetPack
FLASHED = ("bookworm", "cloud-init", "jetson")

RPI_DATE = re.compile(rb"Raspberry Pi reference (\d{4}-\d{2}-\d{2})")
FIRST_BOOKWORM, FIRST_TRIXIE = "2023-10-10", "2025-10-01"


def check_family(said: str | None) -> None:
    """Refuse an unknown OS family."""
    if said is not None and said not in FLASHED:
        raise ConfigError(f"--os {said!r}: no such family{did_you_mean(said, FLASHED)}; known: {' '.join(FLASHED)}")


def detect_family(card: Card, said: str | None = None) -> str:
    """The family of the card; `said` is the user's choice, which resolves ambiguity but not contradictions."""
    family, why = _look(card)
    if family is None and said is not None and why.startswith("?"):
        return said
    if family is None:
        raise ConfigError(f"{card.name}: {why.lstrip('?')}")
    if said is not None and said != family:
        raise ConfigError(f"{card.name}: --os {said}, but it is {family}: {why}")
    return family


def _look(card: Card) -> tuple[str | None, str]:
    """The family and the evidence; or None and why not, prefixed with '?' if the user may choose."""
    if card.read(RELEASE) is not None:
        return "jetson", f"{RELEASE} is there"
    names = set(card.names())
    if not {"config.txt", "cmdline.txt"} <= names:
        if "EFI" in names or "extlinux" in names:
            return None, "the boot files of a Jetson or a PC are no place for a kit; give the mounted root file system"
        return None, "no config.txt and cmdline.txt: not the boot partition of a Raspberry Pi, nor the root of a Jetson"
    if "user-data" in names:
        return "cloud-init", "user-data is there"
    found = RPI_DATE.search(card.read("issue.txt") or b"")
    date = found[1].decode() if found else ""
    if not date:
        return None, "?a Pi's boot partition, but neither user-data nor issue.txt says of which system; give --os"
    if date < FIRST_BOOKWORM:
        return None, f"Raspberry Pi OS of {date}; the oldest supported one is Bookworm, {FIRST_BOOKWORM}"
    if date >= FIRST_TRIXIE:
        return None, f"?Raspberry Pi OS of {date} without user-data: give --os bookworm if it is the legacy Bookworm"
    return "bookworm", f"issue.txt says Raspberry Pi OS of {date}, and there is no user-data"
