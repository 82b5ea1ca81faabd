"""Room for a kit on a card: checked before anything is written, and where its wheels go.

Wheels go to `edgestill/wheels` of the boot partition; of a Jetson, beside its kits. If the boot partition has no room
for them, they go to `/var/lib/edgestill-wheels` of the root file system, which `edgestill flash` can write in images.
If there is no room either, or always, the board fetches them when it is installed, if the kit has an address for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from core.errors import ConfigError
from firmware_configs.flash.cards.card import WHEELS, Card, CardWheel, Plan, WheelPlan
from firmware_configs.flash.plan import home_of
from firmware_configs.kits.install import ROOT_WHEELS
from firmware_configs.kits.kit import Kit

__all__ = ["with_wheels"]

#: Of the file systems of cards, at most.
CLUSTER = 32 * 1024
#: Left free: the board's own updates write to the boot partition too.
SPARE = 8 * 2**20


def with_wheels(plan: Plan, kit: Kit, paths: Mapping[str, Path], card: Card) -> Plan:
    """The plan with the wheels at `paths`, by name, in a place that has room for them; ConfigError if there is none."""
    wheels = {name: CardWheel(path, kit.wheels[name].sha256, kit.wheels[name].bytes) for name, path in paths.items()}
    folder = f"{home_of(plan.family)}/{WHEELS}"
    own = _size([*(len(file.data) for file in plan.files.values()), *(len(put.data) for put in plan.puts)])
    missing = _size([wheel.bytes for name, wheel in wheels.items() if card.digest(f"{folder}/{name}") != wheel.sha256])
    free = card.free() - SPARE
    if own + missing <= free:
        if not wheels:
            return _fetched(plan, kit)
        return replace(plan, wheels=WheelPlan(folder, wheels))
    root, all_wheels = card.root_free(), _size([wheel.bytes for wheel in wheels.values()])
    if own <= free and root is not None and all_wheels <= root - SPARE:
        note = f"the wheels ({_mb(all_wheels)}) go to /{ROOT_WHEELS}: the boot partition has {_mb(free)} to spare"
        return replace(plan, wheels=WheelPlan(ROOT_WHEELS, wheels, root=True), notes=(*plan.notes, note))
    if own <= free and kit.fetch is not None:
        return _fetched(plan, kit)
    raise ConfigError(f"{card.name}: {_too_small(own + missing, free, root)}")


def _fetched(plan: Plan, kit: Kit) -> Plan:
    """The plan of a card without wheels."""
    wheels = [wheel.bytes for wheel in kit.wheels.values() if plan.family in wheel.os]
    if kit.fetch is None or not wheels:
        return plan
    size = _mb(sum(wheels))
    note = f"the board fetches {len(wheels)} wheels ({size}) from {kit.fetch.url}; run `edgestill kit serve` there"
    return replace(plan, notes=(*plan.notes, note))


def _too_small(needed: int, free: int, root: int | None) -> str:
    text = f"the kit takes {_mb(needed)} and the card has {_mb(max(0, free))} to spare"
    if root is None:
        remedy = "flash an image (--to IMAGE), whose root file system takes wheels too"
    else:
        text += f", its root file system {_mb(max(0, root - SPARE))}"
        remedy = "grow the image and its root file system"
    return f'{text}; {remedy}, or provision with wheels = "fleet"'


def _size(sizes: list[int]) -> int:
    """On a file system of clusters."""
    return sum(-(-size // CLUSTER) * CLUSTER for size in sizes)


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
