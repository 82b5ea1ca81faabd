"""Identities of devices, aggregator and broker: TLS keys and certificates, signing keys."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from core.errors import ConfigError
from core.files import read_regular, write_atomic
from firmware_configs.identity.ca import MAX_PEM, Authority, Purpose, new_key, private_pem, public_pem
from wire.keys import Ed25519PrivateKey, generate_key, load_private_key, save_private_key

__all__ = ["Identity", "begins", "ends", "key_of_file", "make_tls", "serves", "signing_pem", "tls_files"]

RENEW_BEFORE = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Identity:
    """A TLS certificate and its key, in PEM."""

    cert: bytes
    key: bytes


def make_tls(
    authority: Authority, name: str, *, purpose: Purpose, days: float, alternatives: Sequence[str] = (), **facts: str
) -> Identity:
    """A new key, and a certificate of `name` for it."""
    key = new_key()
    cert = authority.issue(name, key.public_key(), purpose=purpose, days=days, alternatives=alternatives, **facts)
    return Identity(public_pem(cert), private_pem(key))


def serves(
    pem: bytes, authority: Authority, *, alternatives: Sequence[str] = (), margin: timedelta = RENEW_BEFORE
) -> bool:
    """Whether a certificate was issued by this authority, is not revoked, does not expire soon, and has all these
    names."""
    cert = _certificate(pem, advice="")
    if cert.issuer != authority.cert.subject or authority.revoked(cert.serial_number):
        return False
    if cert.not_valid_after_utc - margin < datetime.now(timezone.utc):
        return False
    return set(alternatives) <= _names(cert)


def begins(pem: bytes) -> datetime:
    """From when on a certificate is valid."""
    return _certificate(pem).not_valid_before_utc


def ends(pem: bytes) -> datetime:
    """When a certificate expires."""
    return _certificate(pem).not_valid_after_utc


def tls_files(
    folder: Path,
    authority: Authority,
    name: str,
    *,
    purpose: Purpose,
    days: float,
    alternatives: Sequence[str] = (),
) -> bool:
    """`ca.pem`, `NAME.pem` and `NAME.key` in `folder`; created again when no longer usable. Returns whether they were
    created."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    if cert.exists() and key.exists() and _file_serves(cert, authority, alternatives):
        return False
    made = make_tls(authority, name, purpose=purpose, days=days, alternatives=alternatives)
    write_atomic(folder / "ca.pem", authority.pem)
    write_atomic(key, made.key, mode=0o600)
    write_atomic(cert, made.cert)
    return True


def _file_serves(path: Path, authority: Authority, alternatives: Sequence[str]) -> bool:
    try:
        return serves(read_regular(path, MAX_PEM), authority, alternatives=alternatives)
    except (OSError, ConfigError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: {why}; remove it, and it is created again") from None


def key_of_file(path: Path) -> Ed25519PrivateKey:
    """The signing key in the file, generated if there is none."""
    if os.path.lexists(path):  # a link to an unmounted disk must not cause a new key
        return load_private_key(path)
    if not path.parent.is_dir():
        raise ConfigError(f"key {path}: there is no folder {path.parent}; create it first")
    key = generate_key()
    save_private_key(key, path)
    return key


def signing_pem(key: Ed25519PrivateKey) -> bytes:
    """A signing key as `wire/keys.py` reads it."""
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _certificate(pem: bytes, *, advice: str = "; create it again with `edgestill provision`") -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise ConfigError(f"not a certificate in PEM ({error}){advice}") from None


def _names(cert: x509.Certificate) -> set[str]:
    try:
        found = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    addresses = {str(address) for address in found.get_values_for_type(x509.IPAddress)}
    return addresses | set(found.get_values_for_type(x509.DNSName))
