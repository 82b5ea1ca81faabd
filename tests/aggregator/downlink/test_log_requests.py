"""A device's log is asked for by command, and its answer kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.downlink.log_requests import LOG, TAILS, LogRequests, log_request, read_tail
from aggregator.storage.journal import Journal
from aggregator.storage.rows import Command
from wire.board_reports import Ask, LogTail
from wire.codec import decode_message
from wire.envelope import open_envelope
from wire.ids import AGGREGATOR
from wire.keys import generate_key

pytestmark = pytest.mark.light
KEY = generate_key()


class Broker:
    def __init__(self) -> None:
        self.up = True
        self.said: list[tuple[str, Ask]] = []

    def __call__(self, topic: str, payload: bytes, retain: bool) -> bool:
        assert not retain  # a request is of now
        if self.up:
            opened = open_envelope(payload, public_key=KEY.public_key(), fleet="f", sender=AGGREGATOR, kinds=("ask",))
            self.said.append((topic, decode_message(opened.payload, Ask)))
        return self.up


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.db")


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def requests(journal: Journal, broker: Broker, tmp_path: Path) -> LogRequests:
    return LogRequests(broker, key=KEY, fleet="f", journal=journal, folder=tmp_path / TAILS)


def ask(requests: LogRequests, journal: Journal, argument: str, now: float = 1000.0) -> str:
    number = journal.ask(LOG, argument)
    requests.run(Command(id=number, verb=LOG, argument=argument), now)
    return journal.answer_of(number).stored  # type: ignore[union-attr]


def test_a_request_is_published_and_its_answer_is_kept(
    requests: LogRequests, journal: Journal, broker: Broker, tmp_path: Path
) -> None:
    assert ask(requests, journal, log_request("pi-1", 20)) == "1000000"
    assert ask(requests, journal, log_request("pi-1", 20)) == "1000001"  # in the same millisecond
    assert broker.said[0] == ("edgestill/1/f/pi-1/ask", Ask(device="pi-1", number=1_000_000, lines=20))
    requests.heard("pi-1", LogTail(number=1_000_000, lines=("old",)), 1001.0)
    assert read_tail(tmp_path, "pi-1") is None
    requests.heard("pi-1", LogTail(number=1_000_001, lines=("a", "b")), 1001.0)
    assert read_tail(tmp_path, "pi-1") == {"number": 1_000_001, "time": 1001.0, "withheld": False, "lines": ["a", "b"]}


def test_an_answer_that_nobody_asked_for_is_ignored(requests: LogRequests, tmp_path: Path) -> None:
    requests.heard("pi-2", LogTail(number=5, lines=("x",)), 1001.0)
    assert not (tmp_path / TAILS).exists()


@pytest.mark.parametrize(
    ("device", "lines", "up", "told"), [("pi-1", 201, True, "Ask.lines"), ("pi-1", 9, False, "no connection")]
)
def test_a_request_that_cannot_be_sent_is_refused(
    requests: LogRequests, journal: Journal, broker: Broker, device: str, lines: int, up: bool, told: str
) -> None:
    broker.up = up
    answer = ask(requests, journal, log_request(device, lines))
    assert answer.startswith("error: ")
    assert told in answer


@pytest.mark.parametrize("text", ["", "{", "[]", '{"number": 1}'])
def test_a_damaged_file_is_no_answer(tmp_path: Path, text: str) -> None:
    (tmp_path / TAILS).mkdir()
    (tmp_path / TAILS / "pi-1.json").write_text(text)
    assert read_tail(tmp_path, "pi-1") is None
