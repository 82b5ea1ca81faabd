"""What is desired of devices: said signed and retained, changed by commands, compared with what they report."""

from pathlib import Path

import pytest

from aggregator.downlink.device_settings import SET, DesiredSettings, ask_for, settings_facts
from aggregator.storage.journal import Journal
from aggregator.storage.rows import Command
from wire.codec import decode_message
from wire.envelope import open_envelope
from wire.ids import AGGREGATOR
from wire.keys import generate_key
from wire.messages import Desired, Reported

KEY = generate_key()


class Broker:
    """What was published; without a connection nothing is."""

    def __init__(self) -> None:
        self.up = True
        self.said: list[tuple[str, Desired]] = []

    def __call__(self, topic: str, payload: bytes, retain: bool) -> bool:
        assert retain
        if self.up:
            envelope = open_envelope(
                payload, public_key=KEY.public_key(), fleet="f", sender=AGGREGATOR, kinds=("desired",)
            )
            self.said.append((topic, decode_message(envelope.payload, Desired)))
        return self.up


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.db")


def open_with(journal: Journal, broker: Broker) -> DesiredSettings:
    return DesiredSettings(broker, key=KEY, fleet="f", journal=journal)


def change(desired: DesiredSettings, journal: Journal, now: float, **changes: str | None) -> str:
    argument = ask_for("pi-1", {name.replace("__", "."): text for name, text in changes.items()})
    number = journal.ask(SET, argument)
    desired.run(Command(id=number, verb=SET, argument=argument), now)
    return journal.answer_of(number).stored


def test_changes_add_up_and_each_is_said_once(journal: Journal) -> None:
    broker = Broker()
    desired = open_with(journal, broker)
    assert change(desired, journal, 1000.9, train__threads="2") == "1000"
    desired.say()
    desired.say()
    assert change(desired, journal, 1000.9, log__level="debug") == "1001"
    assert change(desired, journal, 5000.0, train__threads=None) == "5000"
    desired.say()
    assert [topic for topic, _ in broker.said] == ["edgestill/1/f/pi-1/desired"] * 2
    assert [(d.version, d.settings) for _, d in broker.said] == [
        (1000, {"train.threads": "2"}),
        (5000, {"log.level": "debug"}),
    ]


def test_a_new_connection_and_a_restart_say_all_of_it_again(journal: Journal) -> None:
    broker = Broker()
    desired = open_with(journal, broker)
    change(desired, journal, 7.0, train__threads="2")
    broker.up = False
    desired.say()
    assert broker.said == []
    broker.up = True
    desired.say()
    desired.forget()
    desired.say()
    open_with(journal, broker).say()
    assert [d.version for _, d in broker.said] == [7, 7, 7]


def test_what_no_message_can_carry_is_refused_and_changes_nothing(journal: Journal) -> None:
    broker = Broker()
    desired = open_with(journal, broker)
    assert change(desired, journal, 7.0, train__threads="2" * 300).startswith("error: Desired.settings")
    desired.say()
    assert broker.said == []
    assert settings_facts(journal, "pi-1")["desired"] is None


@pytest.mark.parametrize(
    ("reported", "state"),
    [
        (None, "not reported"),
        (Reported(version=6, status="applied"), "not reported"),
        (Reported(version=7, status="applied", settings={"train.threads": "2"}), "applied"),
        (Reported(version=7, status="applied", refused={"train.threads": "no"}), "1 refused"),
        (Reported(version=7, status="rolled-back", reason="out of memory"), "rolled back"),
    ],
)
def test_what_is_desired_is_compared_with_what_is_reported(
    journal: Journal, reported: Reported | None, state: str
) -> None:
    desired = open_with(journal, Broker())
    assert settings_facts(journal, "pi-1") == {"desired": None, "reported": None, "settings": ""}
    change(desired, journal, 7.0, train__threads="2")
    if reported is not None:
        desired.heard("pi-1", reported)
        desired.heard("pi-1", reported)
        desired.keep()
    facts = settings_facts(journal, "pi-1")
    assert facts["settings"] == state
    assert facts["desired"] == {"version": 7, "settings": {"train.threads": "2"}}
