"""The record of flashed kits: `flashed.json` in the folder of kits, for `--next`.

{"pi-01": {"kit": "<SHA-256 of kit.json>", "when": "2026-11-16T10:00:00Z", "target": "/media/me/bootfs"}}
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from core.errors import ConfigError, EdgestillError
from core.files import read_regular, write_atomic
from firmware_configs.kits.kit import MANIFEST, MAX_MANIFEST, read_part
from firmware_configs.kits.revoked import is_revoked
from firmware_configs.kits.signed import open_kit
from wire.ids import digest_of

__all__ = ["Flashed", "next_kit", "only_one", "read_flashed", "remember"]

RECORD = "flashed.json"
MAX_RECORD = 16 * 2**20


class Flashed(msgspec.Struct, frozen=True):
    """A device whose card was written."""

    kit: str
    when: str
    target: str


class _Families(msgspec.Struct):
    os: list[str]


def read_flashed(kits: Path) -> dict[str, Flashed]:
    """The devices of the folder that have been flashed."""
    try:
        return msgspec.json.decode(read_regular(kits / RECORD, MAX_RECORD), type=dict[str, Flashed])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{kits / RECORD}: {error.strerror}; remove it to begin again") from None
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{kits / RECORD}: {error}; fix it, or remove it to begin again") from None


def remember(kits: Path, device: str, manifest: bytes, target: Path) -> None:
    """Record that the device's card was written."""
    when = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    record = {**read_flashed(kits), device: Flashed(digest_of(manifest), when, str(target))}
    pretty = msgspec.json.format(msgspec.json.encode(dict(sorted(record.items()))), indent=2)
    write_atomic(kits / RECORD, pretty + b"\n")


def next_kit(kits: Path, family: str, key: str | None = None) -> Path:
    """The kit of the first device, by name, that has no card yet, is made for this OS family, and is not revoked."""
    folders = sorted(path.parent for path in kits.glob(f"[!.]*/{MANIFEST}"))
    if not folders:
        raise ConfigError(f"{kits}: no kits there; --next takes the folder created by `edgestill provision`")
    done = read_flashed(kits)
    fitting = [folder for folder in folders if _is_for(folder, family)]
    left = [folder for folder in fitting if folder.name not in done]
    for folder in left:
        if not _is_revoked(folder, kits, key):
            return folder
    if left:
        raise ConfigError(f"{kits}: all kits for {family} have been flashed but {len(left)}, which were revoked")
    if not fitting:
        raise ConfigError(f"{kits}: none of the {len(folders)} kits is for {family}, the system of the card")
    raise ConfigError(f"{kits}: all {len(fitting)} kits for {family} have been flashed; name a kit to flash it again")


def _is_for(kit: Path, family: str) -> bool:
    """The kit's unverified metadata; it is verified before the kit is used."""
    try:
        return family in msgspec.json.decode(read_part(kit / MANIFEST, MAX_MANIFEST), type=_Families).os
    except (EdgestillError, msgspec.MsgspecError):
        return True  # the problem is reported when this kit is used


def _is_revoked(kit: Path, kits: Path, key: str | None) -> bool:
    try:
        return is_revoked(open_kit(kit, key)[0], kits)
    except EdgestillError:
        return False  # as above


@contextmanager
def only_one(kits: Path) -> Iterator[None]:
    """Lock these kits against a second `edgestill flash`: two cards must not get the same identity."""
    # do not follow a link, which could point anywhere
    handle = os.open(kits / ".flash.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "r+b", buffering=0) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{kits}: another `edgestill flash` is using these kits; wait for it") from None
        yield
