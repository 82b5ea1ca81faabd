"""What a kit means for a card: which files go where, decided before anything is written.

The kit goes into a folder named after its device and its content, so a new kit never overwrites the one that the card
boots with. What then makes the board use it is small, and put in place last: a word of `cmdline.txt` (bookworm),
`user-data` (cloud-init), a unit (jetson). In a kit's boot files, `@KIT@` stands for the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from core.errors import ConfigError
from firmware_configs.flash.cards.card import BEFORE, HOME, JETSON_HOME, UNITS, WANTED, Card, Plan, Put
from firmware_configs.flash.merge import active_lines, merge_cmdline, merge_meta_data, merge_user_data
from firmware_configs.kits.bootfiles import FIRSTBOOT, KIT
from firmware_configs.kits.kit import MANIFEST, Kit, KitFile
from wire.ids import digest_of

__all__ = ["home_of", "kit_tag", "make_plan", "on_board"]


def kit_tag(kit: Kit, manifest: bytes) -> str:
    """The folder of a kit: its device and eight digits of what it holds."""
    return f"{kit.device}-{digest_of(manifest)[:8]}"


def home_of(family: str) -> str:
    """The folder of a card below which kits have theirs."""
    return JETSON_HOME if family == "jetson" else HOME


def on_board(family: str, path: str) -> str:
    """Where a path of the card is on the running board; Bookworm, Trixie and Ubuntu mount it alike."""
    return f"/{path}" if family == "jetson" else f"/boot/firmware/{path}"


def make_plan(kit: Kit, signed: Mapping[str, bytes], family: str, card: Card) -> Plan:
    """The plan for one kit; `signed` holds the bytes of kit.json and kit.sig."""
    if not kit.boot(family):
        made = " ".join(kit.os) or "nothing"
        raise ConfigError(f"kit {kit.device}: has boot files for {made}, but the card is {family}; provision it so")
    home, number = home_of(family), 1
    tag = folder = f"{home}/{kit_tag(kit, signed[MANIFEST])}"
    files = _files(kit, signed, family, folder)
    while _damaged(card, folder, files):  # it may be what the card boots with, so it is not written over
        number += 1
        folder = f"{tag}-{number}"
        files = _files(kit, signed, family, folder)
    boot = {name: _named(file.data, family, folder) for name, file in kit.boot(family).items()}
    puts, notes = _PUTS[family](card, boot, folder)
    changed = tuple(put for put in puts if not _is_there(card, put))
    others = [f"{home}/{name}" for name in card.names(home)]
    return Plan(
        device=kit.device,
        family=family,
        folder=folder,
        files=files,
        puts=changed,
        before=_before(card, changed) if family != "jetson" else {},
        old=tuple(other for other in others if other != folder and MANIFEST in card.names(other)),
        notes=tuple(notes),
    )


def _files(kit: Kit, signed: Mapping[str, bytes], family: str, folder: str) -> dict[str, KitFile]:
    """What the kit's folder holds on the card."""
    files = {**kit.payload(), **{name: KitFile(data) for name, data in signed.items()}}
    if family == "bookworm":  # the script is run where the kit is
        for name, file in kit.boot(family).items():
            files[name] = KitFile(_named(file.data, family, folder), file.mode)
    return files


def _named(text: bytes, family: str, folder: str) -> bytes:
    """A boot file that knows where the kit is on the running board."""
    return text.replace(KIT.encode(), on_board(family, folder).encode())


def _bookworm(card: Card, boot: Mapping[str, bytes], folder: str) -> tuple[list[Put], list[str]]:
    existing = card.read("cmdline.txt") or b""
    words = existing.decode(errors="replace").split()
    notes = []
    if any(word.startswith("systemd.run=") and on_board("bookworm", HOME) not in word for word in words):
        notes.append("cmdline.txt runs a first-boot script already; it stays, and runs before edgestill's")
    return [Put("cmdline.txt", merge_cmdline(existing, f"{on_board('bookworm', folder)}/firstrun.sh"))], notes


def _cloud_init(card: Card, boot: Mapping[str, bytes], folder: str) -> tuple[list[Put], list[str]]:
    puts, notes = [], []
    network = card.read("network-config") or b""
    if _names_wifi(network) and network != boot["network-config"] and not _ours(card, network):
        notes.append("network-config names a Wi-Fi already; it stays, and the kit's is not used")
    else:
        puts.append(Put("network-config", boot["network-config"]))
    puts.append(Put("meta-data", merge_meta_data(card.read("meta-data"), boot["meta-data"])))
    merged = merge_user_data(card.read("user-data"), boot["user-data"])
    if not merged.startswith(b"#cloud-config"):
        notes.append("user-data of your own stays, as a part beside edgestill's")
    return [*puts, Put("user-data", merged)], notes  # last: it is what starts the kit's installer


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
    """What the user had, unless an earlier flashing has kept it."""
    kept = set(card.names(BEFORE))
    found = {put.path: card.read(put.path) for put in puts if put.path not in kept}
    return {path: data for path, data in found.items() if data is not None}


def _names_wifi(network: bytes) -> bool:
    return any(line.strip().startswith("wifis:") for line in active_lines(network))


def _ours(card: Card, network: bytes) -> bool:
    """Whether an earlier flashing put it there: then what was before is kept, and differs."""
    before = card.read(f"{BEFORE}/network-config")
    return before is not None and before != network
