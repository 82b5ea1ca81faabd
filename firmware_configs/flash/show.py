"""The kits on a card, without secrets: device, completeness, and whether the board will use it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from core.errors import ConfigError
from firmware_configs.flash.cards.card import ERROR, UNITS, WANTED, Card
from firmware_configs.flash.instance import effective_instance, obstacle
from firmware_configs.flash.plan import home_of, on_board
from firmware_configs.kits.bootfiles import FIRSTBOOT
from firmware_configs.kits.kit import MANIFEST
from wire.ids import digest_of

__all__ = ["Held", "held_kits", "holder", "last_error"]

MAX_ERROR = 2000  # bytes that are shown

STARTERS = {"bookworm": "cmdline.txt", "cloud-init": "user-data", "jetson": f"{UNITS}/{FIRSTBOOT}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One kit on a card."""

    folder: str
    fleet: str
    device: str
    board: str
    created: str
    armed: bool  # the next boot installs it
    unused: str  # why it does not, if that is known and not obvious
    damaged: tuple[str, ...]  # files that are missing, or not those of kit.json


class _File(msgspec.Struct):
    sha256: str


class _Manifest(msgspec.Struct):
    fleet: str
    device: str
    board: str
    created: str
    files: dict[str, _File]


def held_kits(card: Card, family: str) -> list[Held]:
    """The kits on a card; hashes are compared with kit.json, whose signature only `edgestill flash` checks."""
    home = home_of(family)
    found = []
    for name in card.names(home):
        raw = card.read(f"{home}/{name}/{MANIFEST}")
        if raw is None:
            continue
        try:
            manifest = msgspec.json.decode(raw, type=_Manifest)
        except (msgspec.MsgspecError, RecursionError):
            raise ConfigError(f"{card.name}: {home}/{name}/{MANIFEST} is damaged; flash the card again") from None
        payload = {path: file for path, file in manifest.files.items() if not path.startswith("boot/")}
        named, why = _starts(card, family, f"{home}/{name}", manifest.device)
        damaged = [path for path, file in payload.items() if not _is(card, f"{home}/{name}/{path}", file.sha256)]
        found.append(
            Held(
                folder=f"{home}/{name}",
                fleet=manifest.fleet,
                device=manifest.device,
                board=manifest.board,
                created=manifest.created,
                armed=named and not why,
                unused=why if named else "",
                damaged=tuple(damaged),
            )
        )
    return found


def last_error(card: Card, family: str) -> str:
    """Why the board's last installation has failed, as the board wrote it; empty if it has not."""
    return (card.read(f"{home_of(family)}/{ERROR}") or b"")[-MAX_ERROR:].decode(errors="replace").strip()


def holder(card: Card, family: str) -> str | None:
    """The device whose kit the next boot installs, if any."""
    return next((held.device for held in held_kits(card, family) if held.armed), None)


def _starts(card: Card, family: str, folder: str, device: str) -> tuple[bool, str]:
    """Whether the card's boot files name the kit, and why the board would not use it nevertheless."""
    starter = (card.read(STARTERS[family]) or b"").decode(errors="replace")
    named, why = on_board(family, f"{folder}/") in starter, ""
    if family == "cloud-init":
        why = _ignored(card, device)
    elif family == "jetson" and card.link(WANTED) is None:
        why = f"{FIRSTBOOT} is not enabled; flash it again"
    return named, why


def _ignored(card: Card, device: str) -> str:
    """Why cloud-init would ignore the user-data of this card; an empty string if it will process it."""
    cmdline = card.read("cmdline.txt") or b""
    instance = effective_instance(cmdline, card.read("meta-data") or b"")
    if why := obstacle(cmdline):
        return why
    if instance is None or not instance.startswith(f"edgestill-{device}-"):
        return f"cloud-init would take instance {instance or 'nocloud'}, not the kit's; flash it again"
    return ""


def _is(card: Card, path: str, digest: str) -> bool:
    data = card.read(path)
    return data is not None and digest_of(data) == digest
