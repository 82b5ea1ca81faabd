"""Verifies a kit's signature, and whether its device was revoked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firmware_configs.identity.identities import ends
from firmware_configs.kits.kit import Kit
from firmware_configs.kits.revoked import is_revoked
from firmware_configs.kits.signed import open_kit
from firmware_configs.kits.wheels import kit_wheels
from firmware_configs.provision import CERT, CLAIM_CERT

__all__ = ["VerifiedKit", "verify_kit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedKit:
    """A kit with a valid signature, valid files and valid wheels."""

    kit: Kit
    proof: str  # its proof of identity: "certificate", or "claim" if boards generate their own keys
    until: str | None  # its expiry date; None if the kit has neither
    revoked: bool

    @property
    def wheel_bytes(self) -> int:
        """Of all its wheels."""
        return sum(wheel.bytes for wheel in self.kit.wheels.values())

    def facts(self) -> dict[str, Any]:
        """The result as JSON."""
        kit = self.kit
        return {
            "device": kit.device,
            "fleet": kit.fleet,
            "board": kit.board,
            "os": list(kit.os),
            "created": kit.created,
            "files": len(kit.files),
            "wheels": len(kit.wheels),
            "wheel_bytes": self.wheel_bytes,
            "fetch": None if kit.fetch is None else {"url": kit.fetch.url, "always": kit.fetch.always},
            f"{self.proof}_until": self.until,
            "revoked": self.revoked,
        }


def verify_kit(folder: Path, key: str | None = None) -> VerifiedKit:
    """Verify the kit at `folder`; SignatureError if it is not signed by `key`, or fleet-kit.pub next to it."""
    kit, _ = open_kit(folder, key)
    kit_wheels(kit, folder.resolve().parent)
    proof, name = ("claim", CLAIM_CERT) if CLAIM_CERT in kit.files else ("certificate", CERT)
    until = ends(kit.files[name].data).strftime("%Y-%m-%d") if name in kit.files else None
    return VerifiedKit(kit=kit, proof=proof, until=until, revoked=is_revoked(kit, folder.resolve().parent))
