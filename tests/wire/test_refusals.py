"""Reasons of refusals: a text and a code each; acks with the code, without it, and as older readers have them."""

from typing import Annotated

import msgspec
import pytest

from core.errors import DeviceError, EnvelopeError
from wire.codec import decode_ack, encode_message
from wire.messages import Rejected
from wire.refusals import RefusalReason, RefusedError

pytestmark = pytest.mark.light
TEXTS = {
    RefusalReason.NOT_OPENED: "round 4 was not opened",
    RefusalReason.LATE: "late: round 4 is closed",
    RefusalReason.NOT_INVITED: "not invited to round 4",
    RefusalReason.ALREADY_COUNTED: "already counted in round 4",
    RefusalReason.ALREADY_KEPT: "already kept for round 4",
    RefusalReason.REPEATED: "a repetition: this nonce was accepted before",
    RefusalReason.REVOKED: "the device was revoked",
    RefusalReason.UNSOUND: "a {shape}",
    RefusalReason.UNREADABLE: "it cannot be read: a {shape}",
    RefusalReason.NOT_FUSABLE: "cannot be fused: a {shape}",
    RefusalReason.OTHER: "a {shape}",
}


class OlderRejected(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True, kw_only=True, tag="rejected"
):
    """The message as agents of edgestill 0.1 know it."""

    transfer: Annotated[str, msgspec.Meta(pattern=r"\A[a-z0-9-]{1,48}\Z")]
    round: int
    reason: str


@pytest.mark.parametrize("why", RefusalReason)
def test_every_reason_has_a_text_and_is_raised_with_it(why: RefusalReason) -> None:
    assert why.say(number=4, detail="a {shape}") == TEXTS[why]
    error = RefusedError(why, number=4, detail="a {shape}")
    assert isinstance(error, DeviceError)
    assert (str(error), error.why) == (TEXTS[why], why)


def test_devices_that_are_late_or_not_asked_or_send_twice_are_not_at_fault() -> None:
    blameless = {why.value for why in RefusalReason if not why.at_fault}
    assert blameless == {"late", "not-invited", "already-counted", "already-kept"}


def test_codes_are_those_that_journals_and_agents_have_stored() -> None:
    assert {why.name: why.value for why in RefusalReason} == {
        "NOT_OPENED": "not-opened",
        "LATE": "late",
        "NOT_INVITED": "not-invited",
        "ALREADY_COUNTED": "already-counted",
        "ALREADY_KEPT": "already-kept",
        "REPEATED": "repeated",
        "REVOKED": "revoked",
        "UNSOUND": "unsound",
        "UNREADABLE": "unreadable",
        "NOT_FUSABLE": "not-fusable",
        "OTHER": "other",
    }


def test_an_ack_without_a_code_has_the_bytes_that_older_agents_read() -> None:
    data = encode_message(Rejected(transfer="t", round=1, reason="late"))
    assert data == b"\x94\xa8rejected\xa1t\x01\xa4late"
    assert msgspec.msgpack.decode(data, type=OlderRejected) == OlderRejected(transfer="t", round=1, reason="late")


def test_an_ack_of_an_older_aggregator_has_no_code() -> None:
    data = msgspec.msgpack.encode(OlderRejected(transfer="t", round=1, reason="late"))
    assert decode_ack(data) == Rejected(transfer="t", round=1, reason="late", why=None)


@pytest.mark.parametrize("why", RefusalReason)
def test_a_code_travels_after_the_text(why: RefusalReason) -> None:
    data = encode_message(Rejected(transfer="t", round=1, reason="text", why=why))
    assert msgspec.msgpack.decode(data) == ["rejected", "t", 1, "text", why.value]
    assert decode_ack(data) == Rejected(transfer="t", round=1, reason="text", why=why)


def test_a_code_of_a_newer_aggregator_is_read_as_other_and_no_code_is_refused() -> None:
    newer = msgspec.msgpack.encode(["rejected", "t", 1, "too hot", "too-hot"])
    assert decode_ack(newer) == Rejected(transfer="t", round=1, reason="too hot", why=RefusalReason.OTHER)
    with pytest.raises(EnvelopeError, match=r"Rejected\.why"):
        decode_ack(msgspec.msgpack.encode(["rejected", "t", 1, "too hot", 5]))
