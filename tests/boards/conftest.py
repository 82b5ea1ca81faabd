"""Cards that were never booted, and the fleet whose boards all tests of `test_boot.py` share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.boards.cards import copy_card, make_card, read_boot, write_boot
from tests.boards.emulated import EmulatedBoard
from tests.boards.fleet import BoardFleet, board_fleet, write_samples
from tests.boards.joined import fresh_artifacts, keep_consoles

ZERO_MB, FULL_MB = 512, 2048
PAST = "2020-01-01T00:00:00"  # before any certificate of the fleet
IMAGER = "ds=nocloud;i=rpi-imager-1763400000000"
IMAGER_DATA = "#cloud-config\nhostname: imaged-by-hand\nruncmd:\n- [touch, /root/imager]\n"
GROUPS = """
[[group]]
name = "zero"
board = "rpi-zero-2w"
devices = ["zero", "imaged"]
os = ["cloud-init"]
prototype = "cnn:w1"
data = "/srv/samples.npz"
[[group]]
name = "firstrun"
board = "rpi-zero-2w"
devices = ["firstrun"]
os = ["bookworm"]
prototype = "cnn:w1"
data = "/srv/samples.npz"
[[group]]
name = "own-keys"
board = "rpi-zero-2w"
devices = ["own-keys"]
os = ["cloud-init"]
enrol = "approve"
prototype = "cnn:w1"
data = "/srv/samples.npz"
[[group]]
name = "pc"
board = "generic-amd64"
devices = ["here", "mistaken"]
os = ["cloud-init"]
prototype = "cnn:w1"
data = "/srv/samples.npz"
[group.settings.train]
mode = "light"
[[group]]
name = "full"
board = "rpi-4"
devices = ["full"]
os = ["cloud-init"]
prototype = "cnn:w1"
data = "/srv/samples.npz"
[group.settings.train]
memory_mb = 1000
"""


def _card(suite: str, factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = factory.mktemp(suite)
    write_samples(folder / "samples.npz")
    card = make_card(suite, folder / "card.img", folder / "samples.npz")
    yield card
    card.unlink()


@pytest.fixture(scope="session")
def trixie(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A card of Raspberry Pi OS Trixie that was never booted."""
    yield from _card("trixie", tmp_path_factory)


@pytest.fixture(scope="session")
def bookworm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A card of Raspberry Pi OS Bookworm that was never booted."""
    yield from _card("bookworm", tmp_path_factory)


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoardFleet]:
    """The fleet, with its broker and its aggregator on this machine. Cards take gigabytes: they are removed."""
    fresh_artifacts()
    with board_fleet(tmp_path_factory.mktemp("fleet"), GROUPS) as fleet:
        try:
            yield fleet
        finally:
            keep_consoles(fleet.boards)
            for board in fleet.boards:
                board.power_cut()
                board.card.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def full(fleet: BoardFleet, trixie: Path) -> EmulatedBoard:
    """The first of all: installing torch takes longest."""
    return _on(fleet, "full", fleet.flash("full", trixie), memory_mb=FULL_MB)


@pytest.fixture(scope="session")
def zero(fleet: BoardFleet, trixie: Path) -> EmulatedBoard:
    """A Zero 2 W whose clock is in the past."""
    return _on(fleet, "zero", fleet.flash("zero", trixie), clock=PAST)


@pytest.fixture(scope="session")
def firstrun(fleet: BoardFleet, bookworm: Path) -> EmulatedBoard:
    """A Zero 2 W with Bookworm."""
    return _on(fleet, "firstrun", fleet.flash("firstrun", bookworm))


@pytest.fixture(scope="session")
def customised(fleet: BoardFleet, trixie: Path) -> EmulatedBoard:
    """A Zero 2 W without a kit, customised by Raspberry Pi Imager."""
    card = copy_card(trixie, fleet.folder / "customised.img")
    words = read_boot(card, "cmdline.txt", fleet.folder / "cmdline.txt").read_text().strip()
    write_boot(card, "cmdline.txt", f"{words} {IMAGER}\n")
    write_boot(card, "user-data", IMAGER_DATA)
    return _on(fleet, "customised", card)


@pytest.fixture(scope="session")
def mistaken(fleet: BoardFleet, trixie: Path) -> EmulatedBoard:
    """A Zero 2 W with the kit of an amd64 machine."""
    return _on(fleet, "mistaken", fleet.flash("mistaken", trixie))


@pytest.fixture(scope="session")
def imaged(fleet: BoardFleet, customised: EmulatedBoard) -> EmulatedBoard:
    """The customised card after a boot, with a kit; its network is unplugged."""
    customised.until_console("Cloud-init .* finished")
    customised.run("test -e /root/imager")
    customised.shut_down()
    return _on(fleet, "imaged", fleet.flash("imaged", customised.card), cable=False)


@pytest.fixture(scope="session")
def own_keys(fleet: BoardFleet, mistaken: EmulatedBoard) -> EmulatedBoard:
    """A copy of the card whose installation was refused, with the right kit, which has no keys."""
    mistaken.until_console("edgestill-firstboot.service: Scheduled restart job")
    mistaken.shut_down()
    return _on(fleet, "own-keys", fleet.flash("own-keys", mistaken.card))


def _on(
    fleet: BoardFleet, name: str, card: Path, *, memory_mb: int = ZERO_MB, clock: str | None = None, cable: bool = True
) -> EmulatedBoard:
    board = fleet.board(name, card, memory_mb=memory_mb)
    board.cable = cable
    board.power_on(clock=clock)
    return board
