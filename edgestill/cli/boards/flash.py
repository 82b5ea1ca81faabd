"""`edgestill flash`: writes a kit to a card, an image or a disk; shows the contents of a card."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import ConfigError
from edgestill.cli.boards.options import Json, KitKey
from edgestill.cli.output import one_line, out, print_json

if TYPE_CHECKING:
    from firmware_configs.use_cases.flash_kit import CardContent, FlashedCard

__all__ = ["flash"]


KitFolder = Annotated[Path | None, typer.Argument(metavar="KIT", help="Folder of a kit; with --next, of all kits.")]
Target = Annotated[
    Path | None,
    typer.Option("--to", metavar="TARGET", help="A mounted boot partition, a disk image, or a block device."),
]
BaseImage = Annotated[
    Path | None,
    typer.Option("--from", metavar="IMAGE", help="Create the image TARGET from a copy of this image."),
]
ReadCard = Annotated[
    Path | None,
    typer.Option("--read", metavar="TARGET", help="Show the contents of a card without secrets; takes no KIT."),
]
NextKit = Annotated[bool, typer.Option("--next", help="Use the next kit that has no card yet, and record it.")]
Family = Annotated[
    str | None, typer.Option("--os", help="bookworm, cloud-init or jetson, if not detectable from the card.")
]
Replace = Annotated[bool, typer.Option("--replace", help="Replace another device's kit on the card.")]
Yes = Annotated[bool, typer.Option("--yes", help="Confirm that the block device is the card.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show every file, write nothing.")]


def flash(
    kit: KitFolder = None,
    to: Target = None,
    base: BaseImage = None,
    read: ReadCard = None,
    take_next: NextKit = False,
    key: KitKey = None,
    family: Family = None,
    replace: Replace = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Write a kit to a card, so that the board joins its fleet by itself at the next boot.

    The kit's signature is checked first, and written files are read back. An interrupted run leaves the card as it was,
    or is completed by the next run.
    """
    if read is not None:
        if any(given for given in (kit, to, base, take_next, dry_run)):
            raise ConfigError("--read only shows a card; remove KIT, --to, --from, --next and --dry-run")
        _read(read, family, as_json)
        return
    if kit is None or to is None:
        raise ConfigError("KIT or --to is missing; write: edgestill flash KIT --to TARGET")
    from firmware_configs.use_cases.flash_kit import FlashOptions, flash_kit, flash_next

    options = FlashOptions(base=base, key=key, family=family, replace=replace, yes=yes, dry_run=dry_run)
    write = flash_next if take_next else flash_kit
    done = write(kit, to, options, report=None if as_json else _say)
    if as_json:
        print_json(done.facts())
    else:
        _print_flashed(done)


def _say(text: str) -> None:
    out.print(text, markup=False, soft_wrap=True, highlight=False)


def _print_flashed(done: FlashedCard) -> None:
    plan, facts = done.plan, done.facts()
    if not done.written:
        for file in facts["files"]:
            _line("add", file["path"], f"{file['bytes']} bytes{', secret' if file['secret'] else ''}")
        for put in facts["changed"]:
            there = "change" if put["path"] in done.overwritten else "add"
            _line(there, put["path"], f"link to {put['link']}" if put["link"] else f"{put['bytes']} bytes")
        for path in facts["removed"]:
            _line("remove", path, "")
        if plan.wheels is not None:
            total = sum(facts["wheels"].values())
            _line("add", f"{plan.wheels.folder}/", f"{len(facts['wheels'])} wheels, {total:,} bytes")
    for note in plan.notes:
        _say(f"note: {note}")
    count = len(facts["files"]) + len(facts["changed"]) + len(facts["wheels"])
    holds = "holds" if done.written else "would get"
    checked = f"{count} files written and read back" if done.written else "nothing was written"
    text = f"{done.target} ({plan.family}) {holds} the kit of {plan.device}: {checked}"
    out.print(text, markup=False, soft_wrap=True)


def _line(what: str, path: str, more: str) -> None:
    _say(f"{what:7s}{path}  {more}".rstrip())


def _read(target: Path, family: str | None, as_json: bool) -> None:
    from firmware_configs.use_cases.flash_kit import read_card

    card = read_card(target, family)
    if as_json:
        kits = [asdict(held) for held in card.kits]
        print_json({"target": str(target), "family": card.family, "kits": kits, "last_error": card.last_error})
    else:
        _print_content(card)


def _print_content(card: CardContent) -> None:
    kits = card.kits
    text = f"{card.target}: {card.family}, {len(kits) or 'no'} kit{'s' if len(kits) > 1 else ''}"
    out.print(text, soft_wrap=True)
    for held in kits:
        why = f": {held.unused}" if held.unused else ""
        state = "installed at the next boot" if held.armed else f"not used by the next boot{why}"
        whole = f"DAMAGED: {' '.join(held.damaged)}" if held.damaged else "whole"
        text = one_line(f"{held.device} of {held.fleet}, {held.board}, made {held.created}: {whole}, {state}")
        out.print(f"  {text}", soft_wrap=True)
    if card.last_error:
        out.print(f"  the last installation failed: {one_line(card.last_error)}", markup=False, soft_wrap=True)
