"""The plan for writing a kit to a card: which files go where, decided before anything is written.

The kit goes into a folder named after its device and its content, so a new kit never overwrites the one that the card
boots with. It is activated by a small change, written last: a word of `cmdline.txt` (bookworm),
`user-data` (cloud-init), a unit (jetson). In a kit's boot files, `@KIT@` is a placeholder for the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from core.errors import ConfigError
from firmware_configs.flash.cards.card import BEFORE, ERROR, HOME, JETSON_HOME, UNITS, WANTED, Card, Plan, Put
from firmware_configs.flash.instance import (
    INSTANCE_KEYS,
    effective_instance,
    instance_of,
    next_instance,
    obstacle,
    set_instance,
)
from firmware_configs.flash.merge import active_lines, limit_memory, merge_cmdline, merge_meta_data, merge_user_data
from firmware_configs.kits.bootfiles import FIRSTBOOT, KIT
from firmware_configs.kits.kit import MANIFEST, Kit, KitFile
from wire.ids import digest_of

__all__ = ["home_of", "kit_tag", "make_plan", "on_board"]


def kit_tag(kit: Kit, manifest: bytes) -> str:
    """The folder of a kit: its device and eight digits of its digest."""
    return f"{kit.device}-{digest_of(manifest)[:8]}"


def home_of(family: str) -> str:
    """The parent folder of all kits on a card."""
    return JETSON_HOME if family == "jetson" else HOME


def on_board(family: str, path: str) -> str:
    """The path on the running board of a path on the card; Bookworm, Trixie and Ubuntu use the same mount point."""
    return f"/{path}" if family == "jetson" else f"/boot/firmware/{path}"


def make_plan(kit: Kit, signed: Mapping[str, bytes], family: str, card: Card) -> Plan:
    """The plan for one kit; `signed` holds the bytes of kit.json and kit.sig."""
    if not kit.boot(family):
        made = " ".join(kit.os) or "nothing"
        raise ConfigError(
            f"kit {kit.device}: has boot files for {made}, but the card is {family}; add it to 'os' and provision again"
        )
    home, number = home_of(family), 1
    tag = folder = f"{home}/{kit_tag(kit, signed[MANIFEST])}"
    files = _files(kit, signed, family, folder)
    while _damaged(card, folder, files):  # the card may boot with it, so it is not overwritten
        number += 1
        folder = f"{tag}-{number}"
        files = _files(kit, signed, family, folder)
    boot = {name: _named(file.data, family, folder) for name, file in kit.boot(family).items()}
    puts, notes = _PUTS[family](card, boot, folder)
    changed = tuple(put for put in puts if not _is_there(card, put))
    return Plan(
        device=kit.device,
        family=family,
        folder=folder,
        files=files,
        puts=changed,
        before=_before(card, changed) if family != "jetson" else {},
        old=(*(other for other in _kits(card, home) if other != folder), *_told(card, family)),
        notes=tuple(notes),
    )


def _kits(card: Card, home: str) -> list[str]:
    """The folders of the kits on a card."""
    return [f"{home}/{name}" for name in card.names(home) if MANIFEST in card.names(f"{home}/{name}")]


def _told(card: Card, family: str) -> list[str]:
    """The error of an earlier installation, which is not the new kit's."""
    path = f"{HOME}/{ERROR}"
    return [path] if family != "jetson" and card.read(path) is not None else []


def _files(kit: Kit, signed: Mapping[str, bytes], family: str, folder: str) -> dict[str, KitFile]:
    """The files of the kit's folder on the card."""
    files = {**kit.payload(), **{name: KitFile(data) for name, data in signed.items()}}
    if family == "bookworm":  # the script runs from the kit's folder
        for name, file in kit.boot(family).items():
            files[name] = KitFile(_named(file.data, family, folder), file.mode)
    return files


def _named(text: bytes, family: str, folder: str) -> bytes:
    """A boot file with the path of the kit on the running board filled in."""
    return text.replace(KIT.encode(), on_board(family, folder).encode())


def _bookworm(card: Card, boot: Mapping[str, bytes], folder: str) -> tuple[list[Put], list[str]]:
    existing = card.read("cmdline.txt") or b""
    words = existing.decode(errors="replace").split()
    notes = []
    if any(word.startswith("systemd.run=") and on_board("bookworm", HOME) not in word for word in words):
        notes.append("cmdline.txt already runs a first-boot script; it is kept and runs before edgestill's")
    return [Put("cmdline.txt", merge_cmdline(existing, f"{on_board('bookworm', folder)}/firstrun.sh"))], notes


def _cloud_init(card: Card, boot: Mapping[str, bytes], folder: str) -> tuple[list[Put], list[str]]:
    puts, notes = [], []
    network = card.read("network-config") or b""
    if _names_wifi(network) and network != boot["network-config"] and not _ours(card, network):
        notes.append("network-config already has a Wi-Fi; it is kept, and the kit's is not used")
    else:
        puts.append(Put("network-config", boot["network-config"]))
    puts += _instance(card, boot["meta-data"], notes)
    merged = merge_user_data(card.read("user-data"), boot["user-data"])
    if not merged.startswith(b"#cloud-config"):
        notes.append("your user-data is kept, as a part next to edgestill's")
    return [*puts, Put("user-data", merged)], notes  # last: it starts the kit's installer


def _instance(card: Card, ours: bytes, notes: list[str]) -> list[Put]:
    """meta-data and cmdline.txt, with an id that cloud-init has not processed yet, and units that limit memory."""
    cmdline, meta_data = card.read("cmdline.txt") or b"", card.read("meta-data") or b""
    if why := obstacle(cmdline):
        raise ConfigError(f"{card.name}: {why}")
    wanted = instance_of(ours)
    if wanted is None:
        raise ConfigError("meta-data of the kit has no instance-id; provision it again")
    instance = next_instance(wanted, cmdline, meta_data, unused=bool(_kits(card, HOME)))
    named = ours.replace(wanted.encode(), instance.encode())
    puts = [Put("meta-data", merge_meta_data(meta_data, named, also=INSTANCE_KEYS))]
    changed = set_instance(cmdline, instance)
    if changed != cmdline:
        former = effective_instance(cmdline, meta_data)
        notes.append(f"cmdline.txt named the instance {former}; it gets the kit's, so cloud-init runs your part again")
    if limit_memory(changed) != cmdline:
        puts.append(Put("cmdline.txt", limit_memory(changed)))
    return puts


def _jetson(card: Card, boot: Mapping[str, bytes], folder: str) -> tuple[list[Put], list[str]]:
    link = Put(WANTED, link=f"/{UNITS}/{FIRSTBOOT}")
    return [Put(f"{UNITS}/{FIRSTBOOT}", boot[FIRSTBOOT]), link], []


_PUTS: dict[str, Callable[[Card, Mapping[str, bytes], str], tuple[list[Put], list[str]]]]
_PUTS = {"bookworm": _bookworm, "cloud-init": _cloud_init, "jetson": _jetson}


def _damaged(card: Card, folder: str, files: Mapping[str, KitFile]) -> bool:
    names = card.names(folder)
    return bool(names) and any(card.read(f"{folder}/{name}") != file.data for name, file in files.items())


def _is_there(card: Card, put: Put) -> bool:
    return card.link(put.path) == put.link if put.link is not None else card.read(put.path) == put.data


def _before(card: Card, puts: tuple[Put, ...]) -> dict[str, bytes]:
    """The user's files to keep, unless an earlier run has already kept them."""
    kept = set(card.names(BEFORE))
    found = {put.path: card.read(put.path) for put in puts if put.path not in kept}
    return {path: data for path, data in found.items() if data is not None}


def _names_wifi(network: bytes) -> bool:
    return any(line.strip().startswith("wifis:") for line in active_lines(network))


def _ours(card: Card, network: bytes) -> bool:
    """Whether an earlier run wrote it: then the original is kept, and differs."""
    before = card.read(f"{BEFORE}/network-config")
    return before is not None and before != network
