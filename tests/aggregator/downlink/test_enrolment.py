"""The aggregator's side of enrolment: one request per device and claim, answers that boards find again."""

import base64
import json
import logging
import time
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from aggregator.downlink.enrolment import ALL_LOOKS, ENROL, LOOKS, Enrolments, enrol_requests
from aggregator.storage.journal import Journal
from aggregator.storage.rows import Command
from core.errors import EnvelopeError
from tests.wire.test_enrolment import Board, claim_of
from wire.codec import decode_message, encode_message
from wire.enrolment import fingerprint
from wire.envelope import open_envelope, seal
from wire.ids import AGGREGATOR
from wire.keys import Ed25519PublicKey, generate_key
from wire.messages import Enrol, Enrolled

KEY = generate_key()
TOPIC = "edgestill/1/f/pi-1/enrolled"


class Desk:
    """Enrolments with what they published and learned."""

    def __init__(self, folder: Path, ca: Path | None) -> None:
        self.journal = Journal(folder / "journal.db")
        self.said: list[tuple[bool, Enrolled | None]] = []
        self.learned: dict[str, Ed25519PublicKey] = {}
        self.folder, self.ca = folder, ca
        self.start()

    def start(self) -> None:
        self.enrolments = Enrolments(
            self.publish, key=KEY, fleet="f", journal=self.journal, ca=self.ca, learn=self.learned.__setitem__
        )

    def publish(self, topic: str, payload: bytes, retain: bool) -> bool:
        assert topic == TOPIC
        answer = None
        if payload:
            envelope = open_envelope(payload, public_key=KEY.public_key(), fleet="f", sender=AGGREGATOR)
            answer = decode_message(envelope.payload, Enrolled)
        self.said.append((retain, answer))
        return True

    def hear(self, data: bytes, *, revoked: bool = False) -> None:
        self.enrolments.heard("pi-1", data, revoked=revoked, now=time.time())
        self.enrolments.say()

    def order(self, **order: str) -> str:
        number = self.journal.ask(ENROL, json.dumps({"device": "pi-1", **order}))
        self.enrolments.run(Command(id=number, verb=ENROL, argument=json.dumps({"device": "pi-1", **order})))
        self.enrolments.say()
        return self.journal.answer_of(number).stored

    @property
    def entry(self) -> dict:
        return enrol_requests(self.journal)["pi-1"]


def keys_of(board: Board) -> str:
    return fingerprint(board.tls.public_key(), board.signing.public_key())


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    claim_of(tmp_path / "ca")
    return Desk(tmp_path, tmp_path / "ca" / "ca.pem")


def test_a_board_waits_is_approved_and_its_answer_goes_when_it_is_online(desk: Desk) -> None:
    board = Board(claim_of(desk.folder / "ca"))
    desk.hear(board.ask())
    assert desk.said[-1] == (False, Enrolled(device="pi-1", keys=keys_of(board), status="waiting"))
    certificate = base64.b64encode(b"certificate").decode()
    assert desk.order(keys="0" * 64, certificate=certificate).startswith("error: 'pi-1' has asked with other keys")
    assert desk.learned == {}
    assert desk.order(keys=keys_of(board), certificate=certificate) == "approved"
    approved = Enrolled(device="pi-1", keys=keys_of(board), status="approved", certificate=b"certificate")
    assert desk.said[-1] == (True, approved)
    assert desk.learned == {"pi-1": board.signing.public_key()}
    desk.start()  # a restart, and a board that asks again
    desk.hear(board.ask())
    assert desk.said[-1] == (True, approved)
    desk.enrolments.online("pi-1")
    desk.enrolments.say()
    assert desk.said[-1] == (True, None)
    assert desk.entry["status"] == "enrolled"
    assert "request" not in desk.entry


def test_a_claim_belongs_to_the_keys_that_came_first_and_the_second_is_told_and_logged(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    claim = claim_of(desk.folder / "ca")
    board, thief = Board(claim), Board(claim)
    desk.hear(board.ask())
    with caplog.at_level(logging.WARNING, "edgestill.aggregator"):
        desk.hear(thief.ask())
        desk.hear(thief.ask())
    assert caplog.text.count("this claim was used with other keys") == 1
    retained, answer = desk.said[-1]
    assert (retained, answer.status, answer.keys) == (False, "refused", keys_of(thief))
    assert desk.entry["keys"] == keys_of(board)


def test_a_newer_claim_takes_the_place_of_an_older_one_and_never_the_other_way(desk: Desk) -> None:
    old, new = Board(claim_of(desk.folder / "ca", days=1)), Board(claim_of(desk.folder / "ca", days=2))
    desk.hear(old.ask())
    desk.order(keys=keys_of(old), certificate="")
    desk.hear(new.ask())
    assert (desk.entry["keys"], desk.entry["status"]) == (keys_of(new), "waiting")
    desk.hear(old.ask())
    assert desk.said[-1][1].reason == "a newer claim is used"
    assert desk.entry["keys"] == keys_of(new)


def test_a_refused_board_is_told_why(desk: Desk) -> None:
    board = Board(claim_of(desk.folder / "ca"))
    desk.hear(board.ask())
    assert desk.order(keys=keys_of(board), reason="not mine") == "refused"
    assert (desk.said[-1][0], desk.said[-1][1].reason) == (True, "not mine")


@pytest.mark.parametrize("what", ["forged", "revoked", "no authority"])
def test_what_cannot_be_is_logged_and_kept_nowhere(desk: Desk, caplog: pytest.LogCaptureFixture, what: str) -> None:
    data = Board(claim_of(desk.folder / ("other" if what == "forged" else "ca"))).ask()
    if what == "no authority":
        desk.ca = None
        desk.start()
    with caplog.at_level(logging.WARNING, "edgestill.aggregator"):
        desk.hear(data, revoked=what == "revoked")
    said = {
        "forged": "not one of the fleet's authority",
        "revoked": "was revoked",
        "no authority": "names no authority",
    }
    assert said[what] in caplog.text
    assert desk.said == []
    assert enrol_requests(desk.journal) == {}


def test_a_certificate_of_an_unknown_version_is_a_refusal(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    claim = claim_of(desk.folder / "ca")
    board = Board(claim)
    der = x509.load_pem_x509_certificate(claim.cert).public_bytes(serialization.Encoding.DER)
    with caplog.at_level(logging.WARNING, "edgestill.aggregator"):
        desk.hear(with_claim(board, der.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x7b", 1)))
    assert "enrolment of 'pi-1': malformed: InvalidVersion" in caplog.text
    assert desk.said == []


def with_claim(board: Board, claim: bytes) -> bytes:
    """A request with another claim, signed by the board."""
    data = board.ask()
    envelope = open_envelope(data[32:], public_key=board.signing.public_key(), fleet="f")
    message = msgspec.structs.replace(decode_message(envelope.payload, Enrol), claim=claim)
    sealed = seal(encode_message(message), key=board.signing, kind="enrol", sender="pi-1", fleet="f")
    return data[:32] + sealed


def test_a_topic_has_so_many_looks_a_minute_and_so_have_all_together(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []

    def look(*_: object, device: str, **__: object) -> None:
        looked.append(device)
        raise EnvelopeError("no")

    monkeypatch.setattr("wire.enrolment.read_request", look)
    for _ in range(3 * LOOKS):
        desk.enrolments.heard("pi-1", b"x", revoked=False, now=60.0)
    desk.enrolments.heard("pi-2", b"x", revoked=False, now=60.0)
    assert looked == ["pi-1"] * LOOKS + ["pi-2"]
    desk.enrolments.heard("pi-1", b"x", revoked=False, now=121.0)
    assert looked[-1] == "pi-1"
    for n in range(2 * ALL_LOOKS):
        desk.enrolments.heard(f"stranger-{n}", b"x", revoked=False, now=180.0)
    assert len(looked) == LOOKS + 2 + ALL_LOOKS
