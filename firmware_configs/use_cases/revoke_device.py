"""Revokes the certificates of a device, or readmits it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from firmware_configs.identity.ca import open_authority
from firmware_configs.provision import authority_folder, publish_revocations

__all__ = ["RevokedCertificates", "has_claim", "readmit", "revoke_certificates"]


@dataclass(frozen=True, slots=True)
class RevokedCertificates:
    """The number of revoked certificates, and the revocation list for the broker."""

    count: int
    crl: Path


def has_claim(kits: Path, fleet: str, device: str) -> bool:
    """Whether a claim was issued to the device, even if it has never connected."""
    with open_authority(authority_folder(kits), fleet) as authority:
        return any(entry.device == device for entry in authority.issued)


def revoke_certificates(kits: Path, fleet: str, device: str) -> RevokedCertificates:
    """Revoke every certificate and claim of the device."""
    with open_authority(authority_folder(kits), fleet) as authority:
        count = len(authority.revoke(device))
        authority.save()
        return RevokedCertificates(count, publish_revocations(kits, authority))


def readmit(kits: Path, fleet: str, device: str) -> None:
    """Let `provision --renew` certify the device again; a revoked certificate stays revoked."""
    with open_authority(authority_folder(kits), fleet) as authority:
        authority.readmit(device)
        authority.save()
