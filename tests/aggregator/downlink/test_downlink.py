"""Commands about settings and enrolment are the downlink's; others are left to the rounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aggregator.downlink.device_settings import SET, ask_for
from aggregator.downlink.downlink import Downlink
from aggregator.downlink.enrolment import ENROL
from aggregator.downlink.log_requests import LOG, log_request
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from tests.aggregator.scripted import FLEET, key_of
from wire.ids import AGGREGATOR

pytestmark = pytest.mark.light


def test_each_command_goes_to_its_part_and_what_it_changes_is_said_again_after_a_reconnection(tmp_path: Path) -> None:
    sent: list[str] = []
    journal = Journal(tmp_path / "journal.db")
    downlink = Downlink(
        lambda topic, _, __: bool(sent.append(topic)) or True,
        key=key_of(AGGREGATOR),
        fleet=FLEET,
        journal=journal,
        blobs=Blobs(tmp_path / "blobs"),
        tails=tmp_path / "logs",
        ca=None,
        learn=lambda *_: None,
    )
    journal.ask(SET, ask_for("a", {"train.threads": "2"}))
    journal.ask(ENROL, json.dumps({"device": "b", "keys": "00", "reason": "no"}))
    journal.ask(LOG, log_request("c", 20))
    journal.ask("pause")
    assert [downlink.run(command, 1.0) for command in journal.commands()] == [True, True, True, False]
    assert [command.verb for command in journal.commands()] == ["pause"]
    downlink.say()
    assert [topic.rsplit("/", 2)[1:] for topic in sent] == [["c", "ask"], ["a", "desired"]]
    downlink.say()
    assert len(sent) == 2
    downlink.forget()
    downlink.say()
    assert len(sent) == 3  # what is desired; a request is not repeated
