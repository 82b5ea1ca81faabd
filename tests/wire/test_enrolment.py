"""Requests of boards that make their own keys: what is taken, and what each forgery is told."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from core.errors import EnvelopeError, SignatureError, WireError
from firmware_configs.identity.ca import open_authority
from firmware_configs.identity.identities import Identity, make_tls
from wire.enrolment import Request, claim_name, fingerprint, make_request, read_request, shown
from wire.keys import Ed25519PrivateKey, generate_key

pytestmark = pytest.mark.light
NOW = datetime.now(timezone.utc)


def claim_of(folder: Path, name: str = claim_name("pi-1"), *, days: float = 7) -> Identity:
    with open_authority(folder, "f", days=30) as authority:
        return make_tls(authority, name, purpose="client", days=days)


def certificate(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())


@dataclass
class Board:
    claim: Identity
    device: str = "pi-1"
    tls: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    signing: Ed25519PrivateKey = field(default_factory=generate_key)
    claim_key: ec.EllipticCurvePrivateKey | None = None

    def ask(self, fleet: str = "f") -> bytes:
        key = serialization.load_pem_private_key(self.claim.key, password=None)
        return make_request(
            fleet=fleet,
            device=self.device,
            claim=x509.load_pem_x509_certificate(self.claim.cert),
            claim_key=self.claim_key or key,
            tls_key=self.tls,
            signing=self.signing,
        )


def read(data: bytes, folder: Path, device: str = "pi-1", now: datetime = NOW) -> Request:
    return read_request(data, fleet="f", device=device, authority=certificate(folder), now=now)


def test_a_request_tells_the_keys_whose_fingerprint_both_sides_show(tmp_path: Path) -> None:
    board = Board(claim_of(tmp_path))
    request = read(board.ask(), tmp_path)
    assert request.keys == fingerprint(board.tls.public_key(), board.signing.public_key())
    assert request.tls == board.tls.public_key()
    assert request.signing == board.signing.public_key()
    assert request.age[1] - request.age[0] == 8 * 86400  # seven days, and one for clocks that are late
    assert int(request.claim, 16) == x509.load_pem_x509_certificate(board.claim.cert).serial_number
    assert read(board.ask(), tmp_path).keys == request.keys  # asked again, it is the same board
    assert shown(request.keys).replace(" ", "") == request.keys[:20]


@pytest.mark.parametrize(
    ("forged", "error", "said"),
    [
        ("authority", SignatureError, "its claim is not one of the fleet's authority"),
        ("other device", SignatureError, "its claim is that of '_claim-pi-2'"),
        ("a device's certificate", SignatureError, "its claim is that of 'pi-1'"),
        ("expired", EnvelopeError, "its claim ended on"),
        ("stolen claim without its key", SignatureError, "does not hold the key of its claim"),
        ("other fleet", SignatureError, "the signature is not that of the expected key and fleet"),
        ("junk", EnvelopeError, "version"),
        ("short", EnvelopeError, "3 bytes are no request"),
    ],
)
def test_a_request_that_is_not_right_is_refused(tmp_path: Path, forged: str, error: type[WireError], said: str) -> None:
    home = tmp_path / "ca"
    board = Board(claim_of(home))
    data = board.ask()
    if forged == "authority":
        data = Board(claim_of(tmp_path / "other")).ask()
    elif forged == "other device":
        data = Board(claim_of(home, claim_name("pi-2"))).ask()
    elif forged == "a device's certificate":
        data = Board(claim_of(home, "pi-1")).ask()
    elif forged == "expired":
        data = Board(claim_of(home, days=0.1)).ask()
    elif forged == "stolen claim without its key":
        data = Board(board.claim, claim_key=ec.generate_private_key(ec.SECP256R1())).ask()
    elif forged == "other fleet":
        data = board.ask("g")
    elif forged == "junk":
        data = b"\7" * 200
    elif forged == "short":
        data = b"abc"
    with pytest.raises(error, match=said):
        read(data, home, now=NOW + timedelta(days=1))


def test_a_request_is_good_for_no_other_device(tmp_path: Path) -> None:
    data = Board(claim_of(tmp_path)).ask()
    with pytest.raises(EnvelopeError, match="envelope of 'pi-1' where one of 'pi-2' was expected"):
        read(data, tmp_path, "pi-2")


def test_no_byte_of_a_request_can_be_changed(tmp_path: Path) -> None:
    data = Board(claim_of(tmp_path)).ask()
    for at in range(0, len(data), 37):
        with pytest.raises(WireError):
            read(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], tmp_path)
