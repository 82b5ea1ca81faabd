"""A message is signed by the aggregator for one kind of topic, or clears what is retained there."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.downlink.signed import SignedMessages
from aggregator.storage.journal import Journal
from tests.aggregator.scripted import FLEET, key_of
from wire.board_reports import Ask
from wire.codec import decode_message
from wire.envelope import open_envelope
from wire.ids import AGGREGATOR

pytestmark = pytest.mark.light
ASK = Ask(device="pi-1", number=7)


def test_a_message_is_sealed_and_sent_to_the_topic_of_its_kind(tmp_path: Path) -> None:
    sent: list[tuple[str, bytes, bool]] = []
    messages = SignedMessages(
        lambda *what: sent.append(what) or True,
        key=key_of(AGGREGATOR),
        fleet=FLEET,
        journal=Journal(tmp_path / "journal.db"),
    )
    assert messages._send("pi-1", "ask", ASK, retain=False)
    assert messages._send("pi-1", "upgrade", None)
    (topic, payload, retained), cleared = sent
    opened = open_envelope(
        payload, public_key=key_of(AGGREGATOR).public_key(), fleet=FLEET, sender=AGGREGATOR, kinds=("ask",)
    )
    assert decode_message(opened.payload, Ask) == ASK
    assert (topic, retained) == (f"edgestill/1/{FLEET}/pi-1/ask", False)
    assert cleared == (f"edgestill/1/{FLEET}/pi-1/upgrade", b"", True)


def test_without_a_connection_the_caller_is_told(tmp_path: Path) -> None:
    messages = SignedMessages(
        lambda *_: False, key=key_of(AGGREGATOR), fleet=FLEET, journal=Journal(tmp_path / "journal.db")
    )
    assert not messages._send("pi-1", "ask", ASK)
