"""Ed25519 keys on disk: private ones as PKCS#8 PEM that only their owner can read, public ones as PEM."""

from __future__ import annotations

import stat
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from core.errors import ConfigError, SignatureError
from core.files import read_regular, write_atomic

__all__ = [
    "Ed25519PrivateKey",
    "Ed25519PublicKey",
    "generate_key",
    "load_private_key",
    "load_public_key",
    "public_key_from_hex",
    "public_key_hex",
    "save_private_key",
    "save_public_key",
]

MAX_FILE = 8192  # a PEM key takes 119 bytes: larger files are not keys


def generate_key() -> Ed25519PrivateKey:
    """A new key from the operating system's randomness."""
    return Ed25519PrivateKey.generate()


def save_private_key(key: Ed25519PrivateKey, path: Path | str) -> None:
    """Write the key atomically, readable only by its owner."""
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(encoding, form, serialization.NoEncryption())
    _write(path, pem, mode=0o600)


def save_public_key(key: Ed25519PublicKey, path: Path | str) -> None:
    """Write the public key, with which others verify signatures."""
    pem = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    _write(path, pem, mode=0o644)


def load_private_key(path: Path | str) -> Ed25519PrivateKey:
    """Read a key written by `save_private_key`; refuses a file that others can read."""
    pem = _read(path)
    if stat.S_IMODE(Path(path).stat().st_mode) & 0o077:
        raise ConfigError(f"private key {path}: others can read it; run chmod 600 {path}")
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise SignatureError(f"{path}: not a private key in PEM without a password") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SignatureError(f"{path}: a private key, but not an Ed25519 one")
    return key


def load_public_key(path: Path | str) -> Ed25519PublicKey:
    """Read a key written by `save_public_key`."""
    try:
        key = serialization.load_pem_public_key(_read(path))
    except (ValueError, UnsupportedAlgorithm):
        raise SignatureError(f"{path}: not a public key in PEM") from None
    if not isinstance(key, Ed25519PublicKey):
        raise SignatureError(f"{path}: a public key, but not an Ed25519 one")
    return key


def public_key_hex(key: Ed25519PublicKey) -> str:
    """The key in 64 hex digits, for manifests and config files."""
    return key.public_bytes_raw().hex()


def public_key_from_hex(text: str) -> Ed25519PublicKey:
    """The inverse of `public_key_hex`."""
    try:
        return Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
    except ValueError:
        raise SignatureError(f"public key {text[:70]!r}: must be 64 hex digits") from None


def _write(path: Path | str, pem: bytes, *, mode: int) -> None:
    try:
        write_atomic(path, pem, mode=mode)
    except OSError as exc:
        raise ConfigError(f"key {path}: cannot be written: {exc.strerror}") from None


def _read(path: Path | str) -> bytes:
    try:
        return read_regular(path, MAX_FILE)
    except OSError as exc:
        raise ConfigError(f"key {path}: cannot be read: {exc.strerror}; make one with `edgestill keys make`") from None
