"""Signed envelopes."""

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from core.errors import EnvelopeError, SignatureError, TopicError
from wire.envelope import KINDS, MAX_ROUND, WITH_TASK, Envelope, open_envelope, seal, sealed_size

pytestmark = pytest.mark.light

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key()
NONCE = b"nonce-of-12!"


def sealed(payload: bytes = b"payload", **changes) -> bytes:
    fields = {"key": KEY, "kind": "update", "sender": "pi-07", "fleet": "lab", "round": 3, "nonce": NONCE}
    return seal(payload, **(fields | changes))


def opened(data: bytes, **changes) -> Envelope:
    return open_envelope(data, **({"public_key": PUBLIC, "fleet": "lab"} | changes))


@given(
    st.binary(max_size=300),
    st.sampled_from(KINDS),
    st.text("abz09-", min_size=1, max_size=48),
    st.integers(0, MAX_ROUND),
    st.binary(min_size=12, max_size=12),
)
def test_what_is_sealed_is_what_is_opened(payload, kind, sender, number, nonce):
    data = sealed(payload, kind=kind, sender=sender, round=number, nonce=nonce)
    envelope = opened(data)
    assert len(data) == sealed_size(len(payload), kind=kind, sender=sender, round=number)
    assert envelope == Envelope(kind=kind, sender=sender, round=number, nonce=nonce, payload=payload)


def test_pieces_make_the_envelope_of_the_whole():
    fields = {"key": KEY, "kind": "update", "sender": "pi-07", "fleet": "lab", "round": 3, "nonce": NONCE}
    assert seal(b"pay", b"", b"load", **fields) == sealed(b"payload")
    assert opened(seal(**fields)).payload == b""


def test_the_payload_of_a_view_is_not_copied():
    data = bytearray(sealed(b"payload"))
    payload = opened(memoryview(data)).payload
    assert payload == b"payload"
    data[-64 - 7] = ord("P")
    assert payload == b"Payload"


def test_the_bytes_of_an_envelope_are_these():
    head = b"\x94\xa6update\xa5pi-07\x03\xc4\x0cnonce-of-12!"
    data = sealed()
    assert data[:-64] == b"\x01" + bytes([len(head)]) + head + b"payload"
    assert data[-64:].hex() == (
        "d40d1e84a93f1b8bc6c01df23e34c81bfbe9b7fb56ffce6d0e0e69b29fdf1411"
        "d7cf88c7e89f572cb6ccc814246f3cb02b01d7de9a1143acf38f8f8814587407"
    )


def test_the_signature_covers_context_fleet_and_hash():
    """Checked with cryptography alone, from the words of the module docstring."""
    data = sealed()
    PUBLIC.verify(data[-64:], b"edgestill envelope 1\0" + b"lab" + b"\0" + hashlib.sha256(data[:-64]).digest())


def test_the_envelope_adds_less_than_160_bytes_even_at_its_largest():
    assert len(sealed(b"", sender="pi-07")) == 95
    assert len(sealed(b"", kind="metrics", sender="x" * 48, round=MAX_ROUND)) < 160


def test_nonces_are_random_unless_given():
    nonces = {opened(sealed(nonce=None)).nonce for _ in range(20)}
    assert len(nonces) == 20
    assert {len(n) for n in nonces} == {12}


def test_every_flip_of_one_bit_and_every_truncation_is_refused():
    data = sealed()
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(EnvelopeError):
            opened(bytes(flipped))
    for end in range(len(data)):
        with pytest.raises(EnvelopeError):
            opened(data[:end])
    with pytest.raises(SignatureError):
        opened(data + b"\0")


def test_another_key_or_another_fleet_is_refused():
    other = Ed25519PrivateKey.generate()
    with pytest.raises(SignatureError, match="expected key and fleet"):
        opened(sealed(key=other))
    with pytest.raises(SignatureError, match="expected key and fleet"):
        opened(sealed(fleet="lab-2"))


def test_a_bare_signature_of_the_same_bytes_does_not_count():
    data = sealed()
    with pytest.raises(SignatureError):
        opened(data[:-64] + KEY.sign(data[:-64]))


def test_the_size_limit_is_checked_before_anything_else():
    with pytest.raises(EnvelopeError, match="envelope of 102 bytes, at most 101"):
        opened(sealed(), max_bytes=101, public_key=None)
    assert opened(sealed(), max_bytes=102).payload == b"payload"


def test_a_newer_version_is_told_from_a_forgery():
    with pytest.raises(EnvelopeError, match="version 4: only 1 to 3 are known; update the older side"):
        opened(b"\x04" + sealed()[1:])


def test_an_envelope_with_jobs_says_that_it_has_fields_that_version_1_did_not_know():
    assert sealed(kind="job")[0] == 2
    assert {sealed(kind=kind)[0] for kind in KINDS if kind != "job"} == {1}


def test_an_envelope_of_version_1_is_read_whatever_its_kind():
    """As an edgestill wrote it that knew no other."""
    head = b"\x94\xa3job\xa5pi-07\x03\xc4\x0cnonce-of-12!"
    envelope = opened(signed(b"\x01" + bytes([len(head)]) + head + b"payload"))
    assert (envelope.kind, envelope.payload) == ("job", b"payload")
    with pytest.raises(SignatureError):
        opened(b"\x02" + signed(b"\x01" + bytes([len(head)]) + head + b"payload")[1:])


def test_an_unexpected_sender_or_kind_is_refused():
    with pytest.raises(EnvelopeError, match="of 'pi-07' where one of 'pi-08' was expected"):
        opened(sealed(), sender="pi-08")
    with pytest.raises(EnvelopeError, match="kind 'update' where state or about was expected"):
        opened(sealed(), kinds=("state", "about"))
    assert opened(sealed(), sender="pi-07", kinds={"update"}).round == 3


def signed(body: bytes) -> bytes:
    """A body of any form under a good signature."""
    return body + KEY.sign(b"edgestill envelope 1\0lab\0" + hashlib.sha256(body).digest())


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (b"", "bad head"),
        (b"\x94\xa4spam\xa2pi\x03\xc4\x0cnonce-of-12!", "Invalid enum value 'spam'"),
        (b"\x94\xa5state\xa2Pi\x03\xc4\x0cnonce-of-12!", "matching regex"),
        (b"\x94\xa5state\xa2p\xff\x03\xc4\x0cnonce-of-12!", "bad head"),
        (b"\x94\xa5state\xa2pi\xff\xc4\x0cnonce-of-12!", ">= 0"),
        (b"\x94\xa5state\xa2pi\x03\xc4\x0bnonce-of-12", "length"),
        (b"\x95\xa5state\xa2pi\x03\xc4\x0cnonce-of-12!\x00", "at most length 4"),
        (b"\x91" * 200, "bad head"),
    ],
)
def test_a_signed_head_is_still_checked(head, text):
    with pytest.raises(EnvelopeError, match=text):
        opened(signed(b"\x01" + bytes([len(head)]) + head + b"payload"))


def test_a_head_longer_than_the_envelope_is_refused():
    with pytest.raises(EnvelopeError, match="head of 200 bytes does not fit"):
        opened(signed(b"\x01\xc8abc"))


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"sender": "Pi"}, TopicError, "sender 'Pi'"),
        ({"fleet": "a/b"}, TopicError, "fleet 'a/b'"),
        ({"kind": "spam"}, EnvelopeError, "unknown kind 'spam'"),
        ({"round": -1}, EnvelopeError, "round -1"),
        ({"round": 2**32}, EnvelopeError, "is not in 0 .. "),
        ({"round": 1.0}, EnvelopeError, "round 1.0"),
        ({"nonce": b"short"}, EnvelopeError, "nonce of 5 bytes"),
    ],
)
def test_a_malformed_envelope_is_never_sealed(changes, error, text):
    with pytest.raises(error, match=text):
        sealed(**changes)


def test_the_version_of_a_model_with_a_task_is_given():
    assert sealed(kind="model")[0] == 1
    assert opened(sealed(kind="model", version=WITH_TASK)).payload == b"payload"
