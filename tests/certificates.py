"""A certificate authority for tests: short-lived, on disk, elliptic curves because they are quick."""

from __future__ import annotations

import ipaddress
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """`ca` is its certificate; `issue` makes a certificate and a key for a name or an address."""

    def __init__(self, folder: Path, name: str = "test authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._name = folder, _name(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.ca = folder / "ca.crt"
        builder = _builder(self._name, self._name, self._key.public_key(), days=2)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        for extension in self._of_authority():  # which Python 3.13 requires
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.KeyUsage))
        self.ca.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def _of_authority(self) -> tuple[x509.ExtensionType, x509.ExtensionType]:
        usage = dict.fromkeys(
            ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
        )
        signing = x509.KeyUsage(key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False, **usage)
        return signing, x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())

    def issue(self, name: str, *, days: float = 1) -> tuple[Path, Path]:
        """Paths of certificate and key; negative `days`: it expired so long ago."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(name), self._name, key.public_key(), days=days)
        builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(name)]), critical=False)
        cert_path, key_path = self._folder / f"{name}{days}.crt", self._folder / f"{name}{days}.key"
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        cert = builder.add_extension(identifier, critical=False).sign(self._key, hashes.SHA256())
        cert_path.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
        encoding, private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        key_path.write_bytes(key.private_bytes(encoding, private, serialization.NoEncryption()))
        return cert_path, key_path


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, days: float
) -> x509.CertificateBuilder:
    end = datetime.now(timezone.utc) + timedelta(days=days)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(end - timedelta(days=3)).not_valid_after(end)
