"""The kits on a card, without secrets: device, completeness, and whether the board will use it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from core.errors import ConfigError
from firmware_configs.flash.cards.card import UNITS, Card
from firmware_configs.flash.plan import home_of, on_board
from firmware_configs.kits.bootfiles import FIRSTBOOT
from firmware_configs.kits.kit import MANIFEST
from wire.ids import digest_of

__all__ = ["Held", "held_kits", "holder"]

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
    starter = (card.read(STARTERS[family]) or b"").decode(errors="replace")
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
        damaged = [path for path, file in payload.items() if not _is(card, f"{home}/{name}/{path}", file.sha256)]
        found.append(
            Held(
                folder=f"{home}/{name}",
                fleet=manifest.fleet,
                device=manifest.device,
                board=manifest.board,
                created=manifest.created,
                armed=on_board(family, f"{home}/{name}/") in starter,
                damaged=tuple(damaged),
            )
        )
    return found


def holder(card: Card, family: str) -> str | None:
    """The device whose kit the next boot installs, if any."""
    return next((held.device for held in held_kits(card, family) if held.armed), None)


def _is(card: Card, path: str, digest: str) -> bool:
    data = card.read(path)
    return data is not None and digest_of(data) == digest
