"""Certification of boards that generated their own keys: run with the authority's key, not by the aggregator.

The aggregator has checked a request and stored it in its journal. Here it is checked again, against the authority's own
ledger: the claim must have been issued by it, not revoked, not expired, and not used for other keys. Then the
certificate is issued, previous certificates of the device are revoked, and its signing key is written to the
aggregator's keys_dir.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization

from core.errors import ConfigError, SignatureError
from firmware_configs.identity.ca import Authority, Issued, open_authority
from firmware_configs.provision import FLEET, authority_folder, publish_revocations
from wire.enrolment import Request, read_request, shown
from wire.keys import save_public_key

__all__ = ["Approved", "approve", "claims"]

LEAST_DIGITS = 16  # hex digits of a fingerprint that are compared


@dataclass(frozen=True, slots=True)
class Approved:
    """A board that was certified."""

    device: str
    keys: str
    certificate: bytes  # DER
    revoked: int  # number of its previous certificates


def claims(kits: Path, fleet: str) -> dict[str, str]:
    """How each claim issued by the authority is approved, by serial: "approve" or "claim"."""
    with open_authority(authority_folder(kits), fleet) as authority:
        return {entry.serial: entry.enrol for entry in authority.issued if entry.enrol}


def approve(
    device: str, entry: dict[str, Any], *, kits: Path, fleet: str, days: float, fingerprint: str | None = None
) -> Approved:
    """Certify the request of `device` (its `entry` in the aggregator's journal); raises if it is not valid."""
    if entry["status"] not in ("waiting", "approved"):
        raise ConfigError(f"{device} is {entry['status']}; there is nothing to approve")
    with open_authority(authority_folder(kits), fleet) as authority:
        now = datetime.now(timezone.utc)
        request = read_request(_kept(entry, device), fleet=fleet, device=device, authority=authority.cert, now=now)
        _compare(request, fingerprint)
        _check_claim(request, authority)
        # not the claim itself: with it the board fetches its certificate
        former = [issued for issued in authority.revoke(device, but=request.claim) if issued.name == device]
        cert = authority.issue(device, request.tls, purpose="client", days=days, claim=request.claim, keys=request.keys)
        authority.save()
        publish_revocations(kits, authority)
    save_public_key(request.signing, kits / FLEET / "devices" / f"{device}.pub")
    return Approved(device, request.keys, cert.public_bytes(serialization.Encoding.DER), len(former))


def _kept(entry: dict[str, Any], device: str) -> bytes:
    """The request as stored by the aggregator."""
    try:
        return base64.b64decode(entry["request"], validate=True)
    except (KeyError, TypeError, ValueError):
        raise ConfigError(
            f"the request of {device} is damaged in the journal; restart its agent to request again"
        ) from None


def _compare(request: Request, fingerprint: str | None) -> None:
    if fingerprint is None:
        return
    digits = "".join(fingerprint.split()).lower()
    if len(digits) < LEAST_DIGITS or not request.keys.startswith(digits):
        raise ConfigError(
            f"{request.device} has the fingerprint {shown(request.keys)}, not {fingerprint}; is it your board?"
        )


def _check_claim(request: Request, authority: Authority) -> None:
    claim = _entry(authority, request.claim)
    if claim is None or claim.device != request.device or claim.revoked is not None:
        why = "is not in the authority's ledger" if claim is None else "was revoked"
        raise SignatureError(f"enrolment of {request.device!r}: its claim {why}")
    for issued in authority.issued:
        if issued.claim == request.claim and issued.keys != request.keys:
            raise SignatureError(f"enrolment of {request.device!r}: its claim was used with other keys before")


def _entry(authority: Authority, serial: str) -> Issued | None:
    return next((entry for entry in authority.issued if entry.serial == serial), None)
