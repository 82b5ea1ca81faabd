"""The fleet's certificate authority: a folder that only its owner may read.

    ca.pem, ca.key     its certificate and key (ECDSA P-256)
    issued.json        the ledger of all issued certificates: serial, name, purpose, expiry, time of revocation; and
                       the device of a claim, or the claim of a device's certificate
    crl.pem            the revoked ones, for the broker

A device's certificate has its id as common name and is valid for clients only, the broker's for servers only, so
neither can replace the other. Boards often start with a clock in the past, so certificates are valid from a day
earlier.
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Literal

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from core.errors import ConfigError
from core.files import read_regular, write_atomic

__all__ = ["Authority", "Issued", "Purpose", "new_key", "open_authority", "private_pem", "public_pem"]

Purpose = Literal["client", "server"]
_USAGE = {"client": ExtendedKeyUsageOID.CLIENT_AUTH, "server": ExtendedKeyUsageOID.SERVER_AUTH}
EARLY = timedelta(days=1)
MAX_PEM, MAX_LEDGER = 64 * 1024, 256 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """One certificate in the ledger."""

    serial: str  # hex
    name: str
    purpose: Purpose
    ends: str  # UTC, ISO 8601
    revoked: str | None = None
    device: str = ""  # device of a claim
    enrol: str = ""  # of a claim: "approve", or "claim" if no approval is needed
    claim: str = ""  # the serial of the claim that it was issued for
    keys: str = ""  # and the fingerprint of the board's keys: wire/enrolment.py
    undone: str = ""  # when the device was readmitted; the certificate itself stays revoked


class Authority:
    """Issues and revokes certificates; changes are in the ledger once `save` returns."""

    def __init__(self, folder: Path, key: ec.EllipticCurvePrivateKey, cert: x509.Certificate) -> None:
        self.folder, self._key, self.cert = folder, key, cert
        ledger = folder / "issued.json"
        held = read_regular(ledger, MAX_LEDGER) if ledger.exists() else b"[]"
        self.issued = msgspec.json.decode(held, type=list[Issued])

    @property
    def pem(self) -> bytes:
        """Its certificate."""
        return public_pem(self.cert)

    def issue(
        self,
        name: str,
        public_key: ec.EllipticCurvePublicKey,
        *,
        purpose: Purpose,
        days: float,
        alternatives: Sequence[str] = (),
        **facts: str,
    ) -> x509.Certificate:
        """A certificate of `name` for the key; it expires before the authority's own. `facts` are stored in the
        ledger."""
        now = _now()
        ends = min(now + timedelta(days=days), self.cert.not_valid_after_utc)
        builder = _builder(_name(name), self.cert.subject, public_key, now - EARLY, ends)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(digital_signature=True), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([_USAGE[purpose]]), critical=False)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(identifier, critical=False)
        if alternatives:
            names = x509.SubjectAlternativeName([_alternative(text) for text in alternatives])
            builder = builder.add_extension(names, critical=False)
        cert = builder.sign(self._key, hashes.SHA256())
        serial = f"{cert.serial_number:x}"
        self.issued.append(Issued(serial=serial, name=name, purpose=purpose, ends=ends.isoformat(), **facts))
        return cert

    def revoke(self, name: str, *, but: str = "") -> list[Issued]:
        """Revoke every certificate of `name`, and its claims `but` one serial; returns the newly revoked ones."""
        named = [entry for entry in self.issued if name in (entry.name, entry.device)]
        taken = [entry for entry in named if entry.revoked is None and entry.serial != but]
        when = _now().isoformat()
        self.issued = [replace(entry, revoked=when) if entry in taken else entry for entry in self.issued]
        return taken

    def readmit(self, name: str) -> None:
        """Readmit a revoked device, which may get new certificates; the revoked ones stay revoked."""
        when = _now().isoformat()
        mine = [e for e in self.issued if name in (e.name, e.device) and e.revoked is not None and not e.undone]
        self.issued = [replace(entry, undone=when) if entry in mine else entry for entry in self.issued]

    def is_out(self, name: str) -> bool:
        """Whether a device was revoked: all of its certificates are revoked, and it was not readmitted."""
        mine = [entry for entry in self.issued if name in (entry.name, entry.device)]
        return bool(mine) and all(e.revoked is not None for e in mine) and any(not e.undone for e in mine)

    def revoked(self, serial: int) -> bool:
        """Whether a certificate is revoked."""
        return any(entry.revoked is not None for entry in self.issued if entry.serial == f"{serial:x}")

    def crl(self) -> bytes:
        """The revoked certificates, in PEM.

        It expires with the authority: a broker with an expired list refuses every device, which is the worse failure.
        """
        builder = x509.CertificateRevocationListBuilder().issuer_name(self.cert.subject)
        builder = builder.last_update(_now() - EARLY).next_update(self.cert.not_valid_after_utc)
        for entry in self.issued:
            if entry.revoked is not None:
                gone = x509.RevokedCertificateBuilder().serial_number(int(entry.serial, 16))
                builder = builder.add_revoked_certificate(
                    gone.revocation_date(datetime.fromisoformat(entry.revoked)).build()
                )
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def save(self) -> None:
        """Write ledger and revocation list atomically."""
        ledger = msgspec.json.format(msgspec.json.encode(self.issued), indent=1)
        write_atomic(self.folder / "issued.json", ledger, mode=0o600)
        write_atomic(self.folder / "crl.pem", self.crl())


@contextmanager
def open_authority(folder: Path, fleet: str, *, days: float | None = None) -> Iterator[Authority]:
    """The authority in `folder`, locked by this process; with `days` it is created if missing."""
    if days is not None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    elif not (folder / "ca.pem").exists():
        raise ConfigError(f"no certificate authority in {folder}; run `edgestill provision` first")
    with _locked(folder / "lock"):
        _refuse_part(folder)
        if days is not None and not (folder / "ca.pem").exists():
            _make(folder, fleet, days)
        yield _load(folder, fleet)


def new_key() -> ec.EllipticCurvePrivateKey:
    """A TLS key: P-256, which every board and broker supports."""
    return ec.generate_private_key(ec.SECP256R1())


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The key as PKCS#8."""
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def public_pem(cert: x509.Certificate) -> bytes:
    """The certificate as PEM."""
    return cert.public_bytes(serialization.Encoding.PEM)


def _make(folder: Path, fleet: str, days: float) -> None:
    key, name, now = new_key(), _name(_title(fleet)), _now()
    builder = _builder(name, name, key.public_key(), now - EARLY, now + timedelta(days=days))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
    cert = builder.sign(key, hashes.SHA256())
    write_atomic(folder / "ca.key", private_pem(key), mode=0o600)
    write_atomic(folder / "ca.pem", public_pem(cert))  # last: it marks the authority as complete


def _refuse_part(folder: Path) -> None:
    """Refuse an incomplete authority: a new one would lose the record of issued and revoked certificates."""
    ca, ledger, crl = (folder / name for name in ("ca.pem", "issued.json", "crl.pem"))
    lost = ca if os.path.lexists(ca) or os.path.lexists(ledger) else None
    lost = None if ca.exists() else lost
    if ca.exists() and not ledger.exists() and (os.path.lexists(ledger) or crl.exists()):
        lost = ledger
    if lost is not None:
        raise ConfigError(f"certificate authority {folder}: {lost.name} is missing; restore the folder from a backup")


def _load(folder: Path, fleet: str) -> Authority:
    try:
        cert = x509.load_pem_x509_certificate(read_regular(folder / "ca.pem", MAX_PEM))
        key = serialization.load_pem_private_key(read_regular(folder / "ca.key", MAX_PEM), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"certificate authority {folder}: ca.pem or ca.key cannot be used: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != cert.public_key():
        raise ConfigError(f"certificate authority {folder}: ca.key is not the key of ca.pem; restore them together")
    if cert.subject != _name(_title(fleet)):
        raise ConfigError(f"{folder} is the authority of another fleet than {fleet!r}; give another --out")
    try:
        return Authority(folder, key, cert)
    except (OSError, msgspec.MsgspecError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"{folder / 'issued.json'}: {why}; restore it from a backup") from None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)  # concurrent processes would lose each other's entries
        yield
    finally:
        os.close(handle)


def _title(fleet: str) -> str:
    return f"edgestill fleet {fleet}"


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(begins).not_valid_after(ends)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(microsecond=0)
