"""Enrolment of a board that generates its own keys: the certificate request and its verification.

The kit of such a board contains no key of the device, but a claim: a short-lived certificate of the fleet's authority,
with its key, whose common name is `_claim-` and the device. On its first start the board generates a TLS key (P-256)
and a signing key (Ed25519). It publishes on its `enrol` topic:

    32 bytes   public signing key
    rest       envelope of an `Enrol`, signed by that key: certificate request, claim, and a proof, which is an ECDSA
               signature by the claim's key of  context || fleet || 0x00 || device || 0x00 || signing key || request

The request thus proves that its sender holds all three keys, without sending any private key. The fingerprint of the
two new keys is SHA-256(public TLS key, DER || public signing key, raw); operators compare its first digits on both
sides.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from core.errors import EnvelopeError, SignatureError
from wire.codec import decode_message, encode_message
from wire.envelope import open_envelope, seal
from wire.keys import Ed25519PrivateKey, Ed25519PublicKey
from wire.messages import Enrol

__all__ = ["Request", "claim_name", "fingerprint", "make_request", "name_of", "read_request", "shown"]

CONTEXT = b"edgestill enrolment 1\0"
KEY_BYTES = 32
MAX_REQUEST = 12 * 1024
_DER, _SPKI = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request with valid signatures and a valid claim."""

    device: str
    tls: ec.EllipticCurvePublicKey
    signing: Ed25519PublicKey
    keys: str  # their fingerprint
    claim: str  # its serial, in hex
    age: tuple[float, float]  # when the claim begins and ends: the larger, the newer


def claim_name(device: str) -> str:
    """The common name of a device's claim; never that of a device, as ids hold no '_'."""
    return f"_claim-{device}"


def fingerprint(tls: ec.EllipticCurvePublicKey, signing: Ed25519PublicKey) -> str:
    """The fingerprint of a board's two keys, in 64 hex digits."""
    return hashlib.sha256(tls.public_bytes(_DER, _SPKI) + signing.public_bytes_raw()).hexdigest()


def shown(keys: str) -> str:
    """A fingerprint for display: its first 80 bits.

    >>> shown("0123456789abcdef0123" + 44 * "0")
    '0123 4567 89ab cdef 0123'
    """
    return " ".join(keys[at : at + 4] for at in range(0, 20, 4))


def make_request(
    *,
    fleet: str,
    device: str,
    claim: x509.Certificate,
    claim_key: ec.EllipticCurvePrivateKey,
    tls_key: ec.EllipticCurvePrivateKey,
    signing: Ed25519PrivateKey,
) -> bytes:
    """The payload that a board publishes to request its certificate."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, device)])
    csr = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(tls_key, hashes.SHA256())
    raw, public = csr.public_bytes(_DER), signing.public_key()
    proof = claim_key.sign(_to_sign(fleet, device, public, raw), ec.ECDSA(hashes.SHA256()))
    message = Enrol(device=device, csr=raw, claim=claim.public_bytes(_DER), proof=proof)
    sealed = seal(encode_message(message), key=signing, kind="enrol", sender=device, fleet=fleet)
    return public.public_bytes_raw() + sealed


def read_request(data: bytes, *, fleet: str, device: str, authority: x509.Certificate, now: datetime) -> Request:
    """The verified request of `device`; EnvelopeError or SignatureError describes what is wrong with it.

    Certificates are parsed lazily, field by field, and every field of a hostile one raises its own exception
    (InvalidVersion, UnsupportedAlgorithm, DuplicateExtension, OverflowError, ...): all mean "malformed".
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations, such as serials below 1
            return _read_request(data, fleet, device, authority, now)
    except (KeyboardInterrupt, SystemExit):
        raise
    except EnvelopeError as error:  # raised by envelope or message decoding, without the device's name
        where = f"enrolment of {device!r}"
        if str(error).startswith(where):
            raise
        raise type(error)(f"{where}: {error}") from None
    except BaseException as error:  # a panic in cryptography's Rust code is not an Exception
        reason = ascii(str(error).partition("\n")[0][:200])
        raise EnvelopeError(f"enrolment of {device!r}: malformed: {type(error).__name__}: {reason}") from None


def _read_request(data: bytes, fleet: str, device: str, authority: x509.Certificate, now: datetime) -> Request:
    where = f"enrolment of {device!r}"
    if len(data) > MAX_REQUEST or len(data) <= KEY_BYTES:
        raise EnvelopeError(f"{where}: {len(data)} bytes are no request")
    signing = Ed25519PublicKey.from_public_bytes(data[:KEY_BYTES])
    envelope = open_envelope(data[KEY_BYTES:], public_key=signing, fleet=fleet, sender=device, kinds=("enrol",))
    message = decode_message(envelope.payload, Enrol)
    claim = x509.load_der_x509_certificate(message.claim)
    csr = x509.load_der_x509_csr(message.csr)
    tls, claim_key = csr.public_key(), claim.public_key()
    _check_claim(claim, authority, device, now, where)
    if not isinstance(tls, ec.EllipticCurvePublicKey) or not isinstance(tls.curve, ec.SECP256R1):
        raise EnvelopeError(f"{where}: its TLS key is not on P-256")
    if not csr.is_signature_valid or name_of(csr.subject) != device or message.device != device:
        raise SignatureError(f"{where}: the certificate request is not its own")
    if not isinstance(claim_key, ec.EllipticCurvePublicKey):
        raise SignatureError(f"{where}: the key of its claim is not of a kind that the authority issues")
    try:
        claim_key.verify(message.proof, _to_sign(fleet, device, signing, message.csr), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise SignatureError(f"{where}: it does not hold the key of its claim") from None
    keys = fingerprint(tls, signing)
    age = claim.not_valid_before_utc.timestamp(), claim.not_valid_after_utc.timestamp()
    return Request(device=device, tls=tls, signing=signing, keys=keys, claim=f"{claim.serial_number:x}", age=age)


def name_of(subject: x509.Name) -> str:
    """The one common name of a subject; empty if there is not exactly one."""
    found = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if len(found) == 1 else ""


def _check_claim(claim: x509.Certificate, authority: x509.Certificate, device: str, now: datetime, where: str) -> None:
    try:
        claim.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        raise SignatureError(f"{where}: its claim is not one of the fleet's authority") from None
    if claim.serial_number < 1:
        raise EnvelopeError(f"{where}: its claim has no serial that an authority gives")
    if name_of(claim.subject) != claim_name(device):
        raise SignatureError(f"{where}: its claim is that of {name_of(claim.subject)!r}")
    if claim.not_valid_after_utc < now:
        ended = claim.not_valid_after_utc.strftime("%Y-%m-%d %H:%M")
        raise EnvelopeError(f"{where}: its claim ended on {ended}; make another with `edgestill provision --renew`")


def _to_sign(fleet: str, device: str, signing: Ed25519PublicKey, csr: bytes) -> bytes:
    return b"\0".join([CONTEXT + fleet.encode(), device.encode(), signing.public_bytes_raw() + csr])
