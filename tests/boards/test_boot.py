"""Cards flashed by `edgestill flash`, booted in emulated ARM boards: installed without a network, joined over TLS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.boards.cards import boot_names, copy_card, make_card, read_boot, write_boot
from tests.boards.emulated import EmulatedBoard
from tests.boards.fleet import BoardFleet, board_fleet, write_samples
from tests.boards.roots import needs_qemu

pytestmark = [needs_qemu, pytest.mark.slow, pytest.mark.boards, pytest.mark.broker]
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
name = "full"
board = "rpi-4"
devices = ["full"]
os = ["cloud-init"]
prototype = "cnn:w1"
data = "/srv/samples.npz"
[group.settings.train]
memory_mb = 1000
"""


@pytest.fixture(scope="module")
def trixie(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A card of Raspberry Pi OS Trixie that was never booted."""
    folder = tmp_path_factory.mktemp("trixie")
    write_samples(folder / "samples.npz")
    return make_card("trixie", folder / "card.img", folder / "samples.npz")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoardFleet]:
    with board_fleet(tmp_path_factory.mktemp("fleet"), GROUPS) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def full(fleet: BoardFleet, trixie: Path) -> EmulatedBoard:
    """Powered on before the others: installing torch takes longest."""
    board = fleet.board("full", fleet.flash("full", trixie), memory_mb=FULL_MB)
    board.power_on()
    return board


def check_joined(board: EmulatedBoard) -> None:
    """What holds on every board that has joined."""
    assert board.run("systemctl --failed --no-legend --plain") == ""
    assert board.run("systemctl show edgestill-agent -p NRestarts --value") == "0"
    shown = board.run("systemctl show edgestill-agent -p MemoryPeak -p MemoryMax")
    memory = dict(line.split("=") for line in shown.splitlines())
    assert int(memory["MemoryPeak"]) < int(memory["MemoryMax"])
    board.run("/opt/edgestill/bin/edgestill doctor --config /etc/edgestill/agent.toml")
    board.run("sync")
    assert not [name for name in boot_names(board.card) if name.endswith((".key", ".pem"))]
    assert board.run("find /etc/edgestill -type f ! -perm 600") == ""
    assert board.run("find /etc/edgestill -type d ! -perm 700") == ""


def test_a_zero_with_its_clock_in_the_past_installs_without_an_index_and_joins(
    fleet: BoardFleet, full: EmulatedBoard, trixie: Path
) -> None:
    board = fleet.board("zero", fleet.flash("zero", trixie), memory_mb=ZERO_MB)
    board.power_on(clock=PAST)
    fleet.until_online("zero")
    assert "the clock was earlier than this kit" in board.console()
    assert board.boots == 1
    check_joined(board)


def test_a_card_that_imager_customised_and_that_has_booted_runs_the_kit(fleet: BoardFleet, trixie: Path) -> None:
    """Its instance id on the kernel command line outranks the seed; its first boot with the kit has no network."""
    card = copy_card(trixie, trixie.with_name("imaged.img"))
    words = read_boot(card, "cmdline.txt", card.with_suffix(".cmdline")).read_text().strip()
    write_boot(card, "cmdline.txt", f"{words} {IMAGER}\n")
    write_boot(card, "user-data", IMAGER_DATA)
    before = fleet.board("imaged-before", card, memory_mb=ZERO_MB)
    before.power_on()
    before.until_console("Cloud-init .* finished")
    before.run("test -e /root/imager; sync; systemctl poweroff --no-block")
    before.until_console("reboot: Power down")
    before.power_cut()

    board = fleet.board("imaged", fleet.flash("imaged", card), memory_mb=ZERO_MB)
    board.cable = False
    board.power_on()
    board.until_console("edgestill-firstboot")
    board.network(True)
    fleet.until_online("imaged")
    check_joined(board)
    board.run("test -e /root/imager")


def test_a_full_board_installs_torch_and_all_boards_complete_a_round(fleet: BoardFleet, full: EmulatedBoard) -> None:
    fleet.until_online("zero", "imaged", "full")
    check_joined(full)
    fleet.serve(devices=3, rounds=1)
    fleet.until_closed({"zero", "imaged", "full"})
    full.run("test -e /var/lib/edgestill/current.onnx")
