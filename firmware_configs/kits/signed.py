"""Opens a kit for use: the expected signing key, and the signed bytes."""

from __future__ import annotations

import re
from pathlib import Path

from cryptography.exceptions import InvalidSignature

from core.errors import ConfigError, SignatureError
from firmware_configs.kits.kit import MANIFEST, MAX_MANIFEST, SIGNATURE, Kit, load_kit, read_part
from wire.keys import Ed25519PublicKey, load_public_key, public_key_from_hex

__all__ = ["KIT_KEY", "kit_key", "open_kit"]

KIT_KEY = "fleet-kit.pub"


def kit_key(folder: Path, said: str | None) -> Ed25519PublicKey:
    """The key that verifies the kit at `folder`: pinned by the user, in hex or as a file, else the one next to the
    kit."""
    if not folder.is_dir():
        raise ConfigError(f"kit {folder}: there is no such folder; kits are created by `edgestill provision`")
    if said is not None:
        return public_key_from_hex(said.lower()) if re.fullmatch(r"[0-9a-fA-F]{64}", said) else load_public_key(said)
    beside = folder.resolve().parent / KIT_KEY
    if not beside.is_file():
        raise ConfigError(f"kit {folder}: no {KIT_KEY} next to it; give the fleet's kit key with --key")
    return load_public_key(beside)


def open_kit(folder: Path, said: str | None) -> tuple[Kit, dict[str, bytes]]:
    """The kit, checked, and the bytes of kit.json and kit.sig."""
    key = kit_key(folder, said)
    kit = load_kit(folder, key)
    signed = {name: read_part(folder / name, MAX_MANIFEST) for name in (MANIFEST, SIGNATURE)}
    try:
        key.verify(signed[SIGNATURE], signed[MANIFEST])
    except InvalidSignature:
        raise SignatureError(f"kit {folder}: it was changed while it was read; try again") from None
    return kit, signed
