"""Whether a kit is what the fleet has signed, and whether its device may still use it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firmware_configs.identity.identities import ends
from firmware_configs.kits.kit import Kit
from firmware_configs.kits.revoked import is_revoked
from firmware_configs.kits.signed import open_kit
from firmware_configs.provision import CERT, CLAIM_CERT

__all__ = ["VerifiedKit", "verify_kit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedKit:
    """A kit whose signature and files are right."""

    kit: Kit
    proof: str  # by which it proves whose it is: "certificate", or "claim" where boards make their own keys
    until: str | None  # the day on which that ends; None where the kit holds neither
    revoked: bool

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        kit = self.kit
        return {
            "device": kit.device,
            "fleet": kit.fleet,
            "board": kit.board,
            "os": list(kit.os),
            "created": kit.created,
            "files": len(kit.files),
            f"{self.proof}_until": self.until,
            "revoked": self.revoked,
        }


def verify_kit(folder: Path, key: str | None = None) -> VerifiedKit:
    """Open the kit at `folder`; SignatureError if `key`, or fleet-kit.pub beside it, has not signed all of it."""
    kit, _ = open_kit(folder, key)
    proof, name = ("claim", CLAIM_CERT) if CLAIM_CERT in kit.files else ("certificate", CERT)
    until = ends(kit.files[name].data).strftime("%Y-%m-%d") if name in kit.files else None
    return VerifiedKit(kit=kit, proof=proof, until=until, revoked=is_revoked(kit, folder.resolve().parent))
