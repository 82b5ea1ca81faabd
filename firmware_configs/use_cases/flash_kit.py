"""A kit onto a card, an image or a disk; and what a card holds.

The kit's signature is checked before anything of the card is touched. Kits that are flashed are noted beside the kits
(`firmware_configs/flash/flashed.py`), so that `flash_next` gives every card another device.
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
from firmware_configs.flash.show import Held, held_kits, holder
from firmware_configs.kits.kit import MANIFEST, Kit
from firmware_configs.kits.revoked import check_kit
from firmware_configs.kits.signed import open_kit

__all__ = ["CardContent", "FlashOptions", "FlashedCard", "flash_kit", "flash_next", "read_card"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashOptions:
    """How a kit is written; the defaults are those of `edgestill flash`."""

    base: Path | None = None  # the image that the target is made from
    key: str | None = None  # the fleet's kit key, hex or file; None: fleet-kit.pub beside the kit
    family: str | None = None  # where the card leaves it open
    replace: bool = False  # also if the card holds another device's kit
    yes: bool = False  # a block device may be written to
    dry_run: bool = False  # plan, and write nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashedCard:
    """A card with its kit, or, after a dry run, what it would get."""

    target: Path
    plan: Plan
    written: bool
    overwritten: frozenset[str]  # those paths of `plan.puts` that were on the card before

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
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CardContent:
    """What a card holds: its OS family and its kits."""

    target: Path
    family: str
    kits: list[Held]


def flash_kit(
    folder: Path, to: Path, options: FlashOptions, *, report: Callable[[str], None] | None = None
) -> FlashedCard:
    """Write the kit at `folder` to `to`; `report` is told which disk it is before anything is written."""
    with _alone(folder.resolve().parent, options):
        return _flash(folder, to, options, report)


def flash_next(
    kits: Path, to: Path, options: FlashOptions, *, report: Callable[[str], None] | None = None
) -> FlashedCard:
    """Write the first kit of the folder `kits` that has no card yet and is made for the family of `to`."""
    if not kits.is_dir():
        raise ConfigError(f"{kits}: no such folder; --next takes the folder that `edgestill provision` made")
    with _alone(kits, options):
        check_family(options.family)
        family = detect_family(open_target(to, base=options.base, read_only=True), options.family)
        return _flash(next_kit(kits, family, options.key), to, options, report)


def read_card(target: Path, family: str | None = None) -> CardContent:
    """Look at a card, which stays as it is; no secrets."""
    check_family(family)
    card = open_target(target, read_only=True)
    found = detect_family(card, family)
    return CardContent(target=target, family=found, kits=held_kits(card, found))


def _alone(kits: Path, options: FlashOptions) -> Any:
    """A dry run takes no kit, so it waits for nobody."""
    return nullcontext() if options.dry_run else only_one(kits)


def _flash(folder: Path, to: Path, options: FlashOptions, report: Callable[[str], None] | None) -> FlashedCard:
    check_family(options.family)
    kit, signed = open_kit(folder, options.key)  # before anything of the card is touched
    check_kit(kit, folder.resolve().parent)
    card = open_target(to, yes=options.yes, base=options.base, read_only=options.dry_run)
    if report is not None and to.is_block_device():
        report(f"{to} is {examine(to).about}")
    family = detect_family(card, options.family)
    _check_holder(card, family, kit, options)
    plan = make_plan(kit, signed, family, card)
    overwritten = frozenset(put.path for put in plan.puts if card.read(put.path) is not None)
    if not options.dry_run:
        card.write(plan)
        remember(folder.resolve().parent, kit.device, signed[MANIFEST], to)
    return FlashedCard(target=to, plan=plan, written=not options.dry_run, overwritten=overwritten)


def _check_holder(card: Card, family: str, kit: Kit, options: FlashOptions) -> None:
    """A card that another device is to boot with stays that device's, unless the user says otherwise."""
    there = holder(card, family)
    if there not in (None, kit.device) and not options.replace:
        raise ConfigError(f"{card.name}: holds the kit of {there}, not yet booted; --replace puts {kit.device} there")
