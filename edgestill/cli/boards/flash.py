"""`edgestill flash`: a kit onto a card, an image or a disk; and what a card holds."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import ConfigError
from edgestill.cli.output import one_line, out, print_json

if TYPE_CHECKING:
    from firmware_configs.flash.cards.card import Card, Plan

__all__ = ["flash"]


def flash(
    kit: Annotated[
        Path | None, typer.Argument(metavar="KIT", help="The folder of a kit; with --next, of all kits.")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="TARGET", help="A mounted boot partition, a disk image, or a block device."),
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option("--from", metavar="IMAGE", help="Make the image TARGET from this one, which stays as it is."),
    ] = None,
    read: Annotated[
        Path | None, typer.Option("--read", metavar="TARGET", help="Show what a card holds, no secrets; no KIT.")
    ] = None,
    take_next: Annotated[
        bool, typer.Option("--next", help="Take the next kit that has no card yet, and remember it.")
    ] = False,
    key: Annotated[
        str | None, typer.Option("--key", help="The fleet's kit key, hex or file; else fleet-kit.pub beside the kit.")
    ] = None,
    family: Annotated[
        str | None, typer.Option("--os", help="bookworm, cloud-init or jetson, where the card leaves it open.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Also if the card holds another device's kit.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Write to the block device: it is the card.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show every file, write nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write a kit to a card, so that the board joins its fleet by itself at the next boot.

    The kit's signature is checked first, and what was written is read back after. A run that is cut leaves what was on
    the card before, or is finished by the next one.
    """
    if read is not None:
        if any(given for given in (kit, to, base, take_next, dry_run)):
            raise ConfigError("--read only looks at a card; leave out KIT, --to, --from, --next and --dry-run")
        _show(read, family, as_json)
        return
    if kit is None or to is None:
        raise ConfigError("flash what, and to where? Write: edgestill flash KIT --to TARGET")
    from firmware_configs.flash.flashed import next_kit, only_one

    kits = kit if take_next else kit.resolve().parent
    if take_next and not kits.is_dir():
        raise ConfigError(f"{kits}: no such folder; --next takes the folder that `edgestill provision` made")
    with nullcontext() if dry_run else only_one(kits):
        chosen = next_kit(kits, _family_of(to, base, family), key) if take_next else kit
        _flash(chosen, to, base, key, family, replace, yes, dry_run, as_json)


def _family_of(to: Path, base: Path | None, said: str | None) -> str:
    """Of the card, which is only looked at."""
    from firmware_configs.flash.cards.families import check_family, detect_family
    from firmware_configs.flash.cards.targets import open_target

    check_family(said)
    return detect_family(open_target(to, base=base, read_only=True), said)


def _flash(
    folder: Path,
    to: Path,
    base: Path | None,
    key: str | None,
    said: str | None,
    replace: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    from firmware_configs.flash.cards.disks import examine
    from firmware_configs.flash.cards.families import check_family, detect_family
    from firmware_configs.flash.cards.targets import open_target
    from firmware_configs.flash.flashed import remember
    from firmware_configs.flash.plan import make_plan
    from firmware_configs.flash.show import holder
    from firmware_configs.kits.revoked import check_kit
    from firmware_configs.kits.signed import open_kit

    check_family(said)
    kit, signed = open_kit(folder, key)  # before anything of the card is touched
    check_kit(kit, folder.resolve().parent)
    card = open_target(to, yes=yes, base=base, read_only=dry_run)
    if to.is_block_device() and not as_json:
        out.print(f"{to} is {examine(to).about}", markup=False, soft_wrap=True, highlight=False)
    family = detect_family(card, said)
    there = holder(card, family)
    if there not in (None, kit.device) and not replace:
        raise ConfigError(f"{card.name}: holds the kit of {there}, not yet booted; --replace puts {kit.device} there")
    plan = make_plan(kit, signed, family, card)
    if not dry_run:
        card.write(plan)
        remember(folder.resolve().parent, kit.device, signed["kit.json"], to)
    if as_json:
        print_json({"device": kit.device, "family": family, "target": str(to), "written": not dry_run, **_facts(plan)})
    else:
        _tell(plan, card, to, dry_run)


def _facts(plan: Plan) -> dict[str, Any]:
    from firmware_configs.flash.cards.card import BEFORE

    files = [
        {"path": f"{plan.folder}/{name}", "bytes": len(file.data), "secret": file.secret}
        for name, file in sorted(plan.files.items())
    ]
    files += [{"path": f"{BEFORE}/{name}", "bytes": len(data), "secret": False} for name, data in plan.before.items()]
    puts = [{"path": put.path, "bytes": len(put.data), "link": put.link} for put in plan.puts]
    return {"files": files, "changed": puts, "removed": list(plan.old), "notes": list(plan.notes)}


def _tell(plan: Plan, card: Card, to: Path, dry_run: bool) -> None:
    facts = _facts(plan)
    if dry_run:
        for file in facts["files"]:
            _line("add", file["path"], f"{file['bytes']} bytes{', secret' if file['secret'] else ''}")
        for put in facts["changed"]:
            there = "change" if card.read(put["path"]) is not None else "add"
            _line(there, put["path"], f"link to {put['link']}" if put["link"] else f"{put['bytes']} bytes")
        for path in facts["removed"]:
            _line("remove", path, "")
    for note in plan.notes:
        out.print(f"note: {note}", markup=False, soft_wrap=True, highlight=False)
    count = len(facts["files"]) + len(facts["changed"])
    done = "would get" if dry_run else "holds"
    checked = "nothing was written" if dry_run else f"{count} files written and read back"
    out.print(f"{to} ({plan.family}) {done} the kit of {plan.device}: {checked}", markup=False, soft_wrap=True)


def _line(what: str, path: str, more: str) -> None:
    out.print(f"{what:7s}{path}  {more}".rstrip(), markup=False, soft_wrap=True, highlight=False)


def _show(target: Path, said: str | None, as_json: bool) -> None:
    from firmware_configs.flash.cards.families import check_family, detect_family
    from firmware_configs.flash.cards.targets import open_target
    from firmware_configs.flash.show import held_kits

    check_family(said)
    card = open_target(target, read_only=True)
    family = detect_family(card, said)
    kits = held_kits(card, family)
    if as_json:
        print_json({"target": str(target), "family": family, "kits": [asdict(held) for held in kits]})
        return
    out.print(f"{target}: {family}, {len(kits) or 'no'} kit{'s' if len(kits) > 1 else ''}", soft_wrap=True)
    for held in kits:
        state = "installed at the next boot" if held.armed else "not used by the next boot"
        whole = f"DAMAGED: {' '.join(held.damaged)}" if held.damaged else "whole"
        text = one_line(f"{held.device} of {held.fleet}, {held.board}, made {held.created}: {whole}, {state}")
        out.print(f"  {text}", soft_wrap=True)
