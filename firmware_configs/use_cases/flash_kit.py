"""Writes a kit to a card, an image or a disk; reads the contents of a card.

The kit's signature is checked before the card is accessed. Flashed kits are recorded in the folder of kits
(`firmware_configs/flash/flashed.py`), so that `flash_next` uses another device for every card.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import ConfigError
from firmware_configs.flash.cards.card import BEFORE, Card, Plan
from firmware_configs.flash.cards.disks import examine
from firmware_configs.flash.cards.families import check_family, detect_family
from firmware_configs.flash.cards.targets import open_target
from firmware_configs.flash.flashed import next_kit, only_one, remember
from firmware_configs.flash.plan import make_plan
from firmware_configs.flash.room import with_wheels
from firmware_configs.flash.show import Held, held_kits, holder, last_error
from firmware_configs.kits.kit import MANIFEST, Kit
from firmware_configs.kits.revoked import check_kit
from firmware_configs.kits.signed import open_kit
from firmware_configs.kits.wheels import kit_wheels

__all__ = ["CardContent", "FlashOptions", "FlashedCard", "flash_kit", "flash_next", "read_card"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashOptions:
    """Options of `edgestill flash`, with its defaults."""

    base: Path | None = None  # the image from which the target is created
    key: str | None = None  # the fleet's kit key, hex or file; None: fleet-kit.pub next to the kit
    family: str | None = None  # if it cannot be detected from the card
    replace: bool = False  # replace another device's kit on the card
    yes: bool = False  # confirms that the block device may be overwritten
    dry_run: bool = False  # plan only, write nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashedCard:
    """A card with its kit, or, after a dry run, the planned contents."""

    target: Path
    plan: Plan
    written: bool
    overwritten: frozenset[str]  # paths of `plan.puts` that already existed on the card

    def facts(self) -> dict[str, Any]:
        """Device, family and every file, without their content, for JSON."""
        plan = self.plan
        files = [
            {"path": f"{plan.folder}/{name}", "bytes": len(file.data), "secret": file.secret}
            for name, file in sorted(plan.files.items())
        ]
        kept = plan.before.items()
        files += [{"path": f"{BEFORE}/{name}", "bytes": len(data), "secret": False} for name, data in kept]
        return {
            "device": plan.device,
            "family": plan.family,
            "target": str(self.target),
            "written": self.written,
            "files": files,
            "changed": [{"path": put.path, "bytes": len(put.data), "link": put.link} for put in plan.puts],
            "removed": list(plan.old),
            "notes": list(plan.notes),
            "wheels": {name: wheel.bytes for name, wheel in sorted(plan.wheels.wheels.items())} if plan.wheels else {},
            "wheels_in": plan.wheels.folder if plan.wheels else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CardContent:
    """The contents of a card: its OS family and its kits."""

    target: Path
    family: str
    kits: list[Held]
    last_error: str = ""  # of the board's last installation


def flash_kit(
    folder: Path, to: Path, options: FlashOptions, *, report: Callable[[str], None] | None = None
) -> FlashedCard:
    """Write the kit at `folder` to `to`; `report` is called with the disk's properties before anything is written."""
    with _alone(folder.resolve().parent, options):
        return _flash(folder, to, options, report)


def flash_next(
    kits: Path, to: Path, options: FlashOptions, *, report: Callable[[str], None] | None = None
) -> FlashedCard:
    """Write the first kit in `kits` that has no card yet and supports the OS family of `to`."""
    if not kits.is_dir():
        raise ConfigError(f"{kits}: no such folder; --next takes the folder created by `edgestill provision`")
    with _alone(kits, options):
        check_family(options.family)
        family = detect_family(open_target(to, base=options.base, read_only=True), options.family)
        return _flash(next_kit(kits, family, options.key), to, options, report)


def read_card(target: Path, family: str | None = None) -> CardContent:
    """The contents of a card, which is not changed; without secrets."""
    check_family(family)
    card = open_target(target, read_only=True)
    found = detect_family(card, family)
    return CardContent(target=target, family=found, kits=held_kits(card, found), last_error=last_error(card, found))


def _alone(kits: Path, options: FlashOptions) -> Any:
    """Lock the kits; a dry run takes no kit and needs no lock."""
    return nullcontext() if options.dry_run else only_one(kits)


def _flash(folder: Path, to: Path, options: FlashOptions, report: Callable[[str], None] | None) -> FlashedCard:
    check_family(options.family)
    kit, signed = open_kit(folder, options.key)  # before the card is accessed
    check_kit(kit, folder.resolve().parent)
    card = open_target(to, yes=options.yes, base=options.base, read_only=options.dry_run)
    if report is not None and to.is_block_device():
        report(f"{to} is {examine(to).about}")
    family = detect_family(card, options.family)
    _check_holder(card, family, kit, options)
    plan = make_plan(kit, signed, family, card)
    left_out = kit.fetch is not None and kit.fetch.always
    plan = with_wheels(plan, kit, {} if left_out else kit_wheels(kit, folder.resolve().parent, [family]), card)
    overwritten = frozenset(put.path for put in plan.puts if card.read(put.path) is not None)
    if not options.dry_run:
        card.write(plan)
        remember(folder.resolve().parent, kit.device, signed[MANIFEST], to)
    return FlashedCard(target=to, plan=plan, written=not options.dry_run, overwritten=overwritten)


def _check_holder(card: Card, family: str, kit: Kit, options: FlashOptions) -> None:
    """Refuse to replace another device's kit that has not booted yet, unless `replace` is set."""
    there = holder(card, family)
    if there not in (None, kit.device) and not options.replace:
        raise ConfigError(
            f"{card.name}: holds the kit of {there}, not yet booted; --replace overwrites it with {kit.device}"
        )
