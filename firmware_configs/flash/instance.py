"""The instance id of a cloud-init card: cloud-init runs a kit's commands once for each id, so the kit needs a new one.

cloud-init reads it from two places. `ds=nocloud;i=ID` in `cmdline.txt`, which Raspberry Pi Imager writes, takes
precedence over `instance-id` in `meta-data`. A card that has booted with an id does nothing more for that id, whatever
its `user-data` says; not even if another id was in use meanwhile. So every kit that is flashed after a boot gets an id
that the card never had: `edgestill-DEVICE-DIGEST`, then `edgestill-DEVICE-DIGEST.2`, and so on.
"""

from __future__ import annotations

import json
import re

__all__ = ["INSTANCE_KEYS", "effective_instance", "instance_of", "next_instance", "obstacle", "set_instance"]

#: Spellings of the id in meta-data: cloud-init reads the first; images of Raspberry Pi OS and Ubuntu have the other.
INSTANCE_KEYS = ("instance-id", "instance_id")
SEED = re.compile(r"ds=nocloud(?:-net)?(?:;.*)?")
OURS = re.compile(r"edgestill-[a-z0-9-]+(?:\.(\d+))?")
BOOT = ("/boot/firmware", "file:///boot/firmware")


def effective_instance(cmdline: bytes, meta_data: bytes) -> str | None:
    """The id that cloud-init will use: that of cmdline.txt, else that of meta-data."""
    return _settings(cmdline, ("i", "instance-id")) or instance_of(meta_data)


def instance_of(meta_data: bytes) -> str | None:
    """The id in meta-data, if it has one."""
    text = meta_data.decode(errors="replace")
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text).get(INSTANCE_KEYS[0])
        except ValueError:
            return None
        return None if found is None else str(found)
    lines = re.findall(r"""^["']?instance-id["']?[ \t]*:[ \t]*(.*)$""", text, re.MULTILINE)
    return lines[-1].split(" #")[0].strip().strip("\"'") or None if lines else None  # of two, YAML uses the last


def set_instance(cmdline: bytes, instance: str) -> bytes:
    """cmdline.txt with `instance` as the id of every `ds=nocloud;i=...`; unchanged if it names none."""
    words = re.split(r"(\s+)", cmdline.decode(errors="surrogateescape"))
    return "".join(_with_instance(word, instance) for word in words).encode(errors="surrogateescape")


def next_instance(ours: str, cmdline: bytes, meta_data: bytes, *, unused: bool) -> str:
    """The id for a kit whose own is `ours`; `unused`: the card still holds a kit, so it has not booted with that one's.

    >>> next_instance("edgestill-pi-07-0a1b", b"ds=nocloud;i=edgestill-pi-08-2c3d", b"", unused=False)
    'edgestill-pi-07-0a1b.2'
    """
    there = [_settings(cmdline, ("i", "instance-id")), instance_of(meta_data)]
    counts = [int(found[1] or 1) for found in (OURS.fullmatch(name or "") for name in there) if found]
    count = max(counts, default=0) + (not unused or not counts)
    return ours if count == 1 else f"{ours}.{count}"


def obstacle(cmdline: bytes) -> str:
    """Why cloud-init would not read this card's user-data, according to its cmdline.txt; empty if it would."""
    words = _words(cmdline)
    if "cloud-init=disabled" in words:
        return "cmdline.txt has cloud-init=disabled, so the board would not read the kit; remove that word"
    for word in words:
        if re.match(r"(ci\.)?ds=", word) and not SEED.fullmatch(word.removeprefix("ci.")):
            return f"cmdline.txt has {word[:80]}, so cloud-init would not read the card; remove that word"
    seed = _settings(cmdline, ("s", "seedfrom"))
    if seed is not None and seed.rstrip("/") not in BOOT:
        return f"cmdline.txt has cloud-init read {seed[:80]} instead of the card; remove 's=' from its 'ds=' word"
    return ""


def _words(cmdline: bytes) -> list[str]:
    return cmdline.decode(errors="replace").split()


def _settings(cmdline: bytes, keys: tuple[str, str]) -> str | None:
    """The value of a key in the last `ds=nocloud;key=value` word, which is the one that cloud-init uses."""
    seeds = [word for word in _words(cmdline) if SEED.fullmatch(word)]
    pairs = [item.partition("=") for item in seeds[-1].split(";")[1:]] if seeds else []
    values = [value for key, _, value in pairs if key in keys]
    return values[-1] or None if values else None


def _with_instance(word: str, instance: str) -> str:
    if not SEED.fullmatch(word):
        return word
    return re.sub(r"(?<=;)(i|instance-id)=[^;]*", rf"\1={instance}", word)
