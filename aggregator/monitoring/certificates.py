"""Expiry of the certificates that the service presents and trusts."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509

from transport.config import TlsConfig

__all__ = ["certificate_ends"]


def certificate_ends(tls: TlsConfig | None) -> dict[str, float]:
    """The first end in each file, `ca` and `aggregator`, in seconds since 1970; unreadable files are left out."""
    ends = {}
    for name, path in {} if tls is None else {"ca": tls.ca, "aggregator": tls.cert}.items():
        if path is not None and (end := _first_end(path)) is not None:
            ends[name] = end
    return ends


def _first_end(path: Path) -> float | None:
    try:
        found = x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError):
        return None  # the connection that needs it says what is wrong with it
    return min((one.not_valid_after_utc.timestamp() for one in found), default=None)
