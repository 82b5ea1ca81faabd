"""Chunks to the disk, the whole bundle to the installer, its status to the fleet; cut off anywhere, it goes on."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from core.errors import EnvelopeError
from edge_agent.messages import Mail
from edge_agent.upgrades import Upgrades
from wire.chunks import Content, encode_chunk
from wire.codec import decode_message, encode_message
from wire.envelope import open_envelope, seal
from wire.ids import AGGREGATOR, digest_of
from wire.keys import generate_key
from wire.messages import Upgrade, Upgraded

pytestmark = pytest.mark.light
AGGREGATORS, OWN = generate_key(), generate_key()
DATA = b"bundle" * 20_000
BUNDLE = digest_of(DATA)
CONTENT = Content(digest=BUNDLE, size=len(DATA))


class FakeLink:
    """What was published and subscribed to."""

    def __init__(self) -> None:
        self.subscribed: set[str] = set()
        self.told: list[Upgraded] = []

    def subscribe(self, topics: Sequence[str]) -> None:
        self.subscribed |= set(topics)

    def unsubscribe(self, topics: Sequence[str]) -> None:
        self.subscribed -= set(topics)

    def publish(self, topic: str, payload: bytes, *, retain: bool) -> bool:
        assert (topic, retain) == ("edgestill/1/f/pi-01/upgraded", True)
        opened = open_envelope(payload, public_key=OWN.public_key(), fleet="f", sender="pi-01", kinds=("upgraded",))
        self.told.append(decode_message(opened.payload, Upgraded))
        return True


class Board:
    """A board's state folder, and the status of its installer."""

    def __init__(self, folder: Path) -> None:
        self.state, self.installer = folder / "state", folder / "installer"
        self.installer.mkdir(exist_ok=True)
        self.says()
        self.start()

    def start(self) -> None:
        self.link = FakeLink()
        mail = Mail("f", "pi-01", key=OWN, aggregator=AGGREGATORS.public_key(), wall_clock=lambda: 0.0)
        self.upgrades = Upgrades(self.installer, self.state, mail=mail, link=self.link)  # type: ignore[arg-type]
        self.upgrades.connected()
        self.upgrades.poll(0.0)

    def says(self, **facts: object) -> None:
        beside = self.installer / "new"
        beside.write_text(json.dumps(facts))
        beside.rename(self.installer / "status.json")

    def offer(self, device: str = "pi-01") -> None:
        upgrade = Upgrade(device=device, number=7, bundle=BUNDLE, version="0.3.0")
        payload = seal(encode_message(upgrade), key=AGGREGATORS, kind="upgrade", sender=AGGREGATOR, fleet="f")
        self.upgrades.offered(payload)

    def chunk(self, n: int) -> None:
        offset, size = CONTENT.span(n)
        self.upgrades.chunk(BUNDLE, encode_chunk(CONTENT, n, DATA[offset : offset + size]))

    @property
    def request(self) -> Path:
        return self.state / "upgrade/request"

    @property
    def phases(self) -> list[str]:
        return [told.phase for told in self.link.told]


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


def test_a_bundle_comes_in_chunks_and_is_handed_over_whole(board: Board) -> None:
    assert board.link.subscribed == {"edgestill/1/f/pi-01/upgrade"}
    board.offer()
    assert board.upgrades.needed == {BUNDLE}
    for n in range(CONTENT.count):
        board.chunk(n)
    assert board.request.read_bytes() == DATA
    assert board.phases[-1] == "installing"
    assert board.link.subscribed == {"edgestill/1/f/pi-01/upgrade"}
    board.says(digest=BUNDLE, number=7, phase="back", reason="it ended")
    board.upgrades.poll(1.0)
    assert (board.link.told[-1].phase, board.link.told[-1].reason) == ("back", "it ended")


def test_after_a_restart_in_the_midst_the_rest_is_fetched(board: Board) -> None:
    board.offer()
    board.chunk(0)
    board.start()
    board.offer()
    board.chunk(1)
    board.chunk(0)
    assert board.request.read_bytes() == DATA


def test_after_a_restart_a_bundle_that_was_handed_over_is_not_fetched_again(board: Board) -> None:
    board.offer()
    for n in range(CONTENT.count):
        board.chunk(n)
    board.start()
    board.offer()
    assert (board.upgrades.needed, board.phases) == (set(), ["installing"])


def test_a_bundle_that_is_whole_but_not_handed_over_is_found_at_the_next_start(board: Board) -> None:
    board.offer()
    for n in range(CONTENT.count):
        board.chunk(n)
    board.request.rename(board.state / "upgrade/models" / BUNDLE)
    board.start()
    board.offer()
    assert board.request.read_bytes() == DATA


def test_an_agent_on_trial_says_that_it_is_well_after_it_has_heard_itself(board: Board) -> None:
    board.says(digest=BUNDLE, number=7, phase="trial", environment=sys.prefix)
    board.upgrades.poll(1.0)
    healthy = board.state / "upgrade/healthy"
    assert not healthy.exists()
    board.upgrades.heard_self()
    assert healthy.read_text() == "7"


def test_the_former_agent_does_not(board: Board) -> None:
    board.says(digest=BUNDLE, number=7, phase="trial", environment="/opt/other")
    board.upgrades.poll(1.0)
    board.upgrades.heard_self()
    assert not (board.state / "upgrade/healthy").exists()


def test_without_an_installer_it_is_announced_and_refused(tmp_path: Path) -> None:
    link = FakeLink()
    mail = Mail("f", "pi-01", key=OWN, aggregator=AGGREGATORS.public_key(), wall_clock=lambda: 0.0)
    for installer in (None, tmp_path / "nothing"):
        upgrades = Upgrades(installer, tmp_path / "state", mail=mail, link=link)  # type: ignore[arg-type]
        assert upgrades.announced["upgrade"].startswith("not supported here: ")
        upgrades.connected()
        assert link.subscribed == set()
    assert not (tmp_path / "state/upgrade").exists()


def test_with_one_it_is_announced(board: Board) -> None:
    assert board.upgrades.announced == {"upgrade": "1"}


def test_an_offer_that_the_aggregator_has_not_signed_is_refused(board: Board) -> None:
    upgrade = Upgrade(device="pi-01", number=7, bundle=BUNDLE, version="0.3.0")
    forged = seal(encode_message(upgrade), key=OWN, kind="upgrade", sender=AGGREGATOR, fleet="f")
    with pytest.raises(EnvelopeError):
        board.upgrades.offered(forged)
    assert board.link.told == []


def test_an_offer_that_is_taken_back_leaves_nothing_on_the_disk(board: Board) -> None:
    board.offer()
    board.chunk(0)
    board.upgrades.offered(b"")
    assert list((board.state / "upgrade/partial").iterdir()) == []


def test_a_damaged_status_is_logged_and_read_again_when_it_changes(
    board: Board, caplog: pytest.LogCaptureFixture
) -> None:
    (board.installer / "status.json").write_text("{")
    board.upgrades.poll(1.0)
    board.upgrades.poll(2.0)
    assert len(caplog.records) == 1


def whole_transfer(folder: Path) -> None:
    """An offer, its chunks, the trial of a new agent."""
    board = Board(folder)
    board.offer()
    for n in range(CONTENT.count):
        board.chunk(n)
    board.says(digest=BUNDLE, number=7, phase="trial", environment=sys.prefix)
    board.upgrades.poll(1.0)
    board.upgrades.heard_self()


@pytest.mark.parametrize(
    "point",
    [
        "agent-bundle-chunk",
        "agent-bundle-chunk:2",
        "agent-bundle-fetched",
        "agent-bundle-handed-over",
        "agent-upgrade-told",
        "agent-upgrade-well",
    ],
)
def test_killed_anywhere_it_hands_the_bundle_over_whole(tmp_path: Path, point: str) -> None:
    child = os.fork()
    if child == 0:
        os.environ["EDGESTILL_CRASH_AT"] = point
        try:
            whole_transfer(tmp_path)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    trial = point == "agent-upgrade-well"
    board = Board(tmp_path)
    board.offer()
    for n in range(CONTENT.count):
        if board.upgrades.needed:
            board.chunk(n)
    assert board.request.read_bytes() == DATA
    assert (board.state / "upgrade/healthy").exists() is trial
