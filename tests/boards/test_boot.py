"""Cards flashed by `edgestill flash`, booted in emulated ARM boards: installed without a network, joined over TLS.

The tests share one fleet and run in this order; the last ones have all boards in one round. Two boards are installed at
a time, as many as the machine has cores: a test powers on the board of the next one. Consoles and figures are kept in
`joined.ARTIFACTS`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from aggregator.downlink.enrolment import enrol_requests
from tests.boards.cards import boot_names, read_boot
from tests.boards.conftest import PAST
from tests.boards.emulated import EmulatedBoard
from tests.boards.fleet import BoardFleet
from tests.boards.joined import check_joined, note_figures
from tests.boards.roots import needs_qemu

pytestmark = [needs_qemu, pytest.mark.slow, pytest.mark.boards, pytest.mark.broker]
BOARDS = {"zero", "firstrun", "imaged", "own-keys", "full"}
INSTALLING = "edgestill: installing what"


@pytest.mark.usefixtures("full")
def test_a_kit_of_another_architecture_is_refused_and_the_card_says_so(
    fleet: BoardFleet, mistaken: EmulatedBoard, own_keys: EmulatedBoard
) -> None:
    why = "this kit is for x86_64, and this machine is aarch64"
    assert why in read_boot(mistaken.card, "edgestill/last-error.txt", mistaken.folder / "error").read_text()
    assert why in fleet.edgestill("flash", "--read", mistaken.card)
    assert f"mistaken: installing: {why}\n" in fleet.edgestill("device", "list", "--config", "fleet.toml")
    assert not [name for name in boot_names(mistaken.card) if name.endswith((".key", ".pem"))]


@pytest.mark.usefixtures("customised")
def test_the_right_kit_on_a_card_that_had_a_wrong_one_makes_its_own_keys_and_is_enrolled(
    fleet: BoardFleet, own_keys: EmulatedBoard
) -> None:
    fingerprint = own_keys.until_console(r"(?<=enrolling; fingerprint )[0-9a-f ]{20,}").strip()
    fleet.until(lambda journal: "own-keys" in enrol_requests(journal))
    fleet.edgestill("device", "approve", "own-keys", "--fingerprint", fingerprint, "--config", "fleet.toml")
    fleet.until_online("own-keys")
    check_joined(own_keys)
    assert own_keys.run("find /etc/edgestill -name device.key") == ""
    assert not [name for name in boot_names(own_keys.card) if "last-error" in name]


@pytest.mark.usefixtures("zero")
def test_a_card_that_imager_customised_and_that_has_booted_runs_the_kit(
    fleet: BoardFleet, imaged: EmulatedBoard
) -> None:
    """Its instance id on the kernel command line outranks the seed; its first boot with the kit has no network."""
    imaged.until_console("edgestill-firstboot")
    imaged.network(True)
    fleet.until_online("imaged")
    check_joined(imaged)
    imaged.run("test -e /root/imager")


@pytest.mark.usefixtures("firstrun")
def test_a_zero_with_its_clock_in_the_past_installs_without_an_index_and_joins(
    fleet: BoardFleet, zero: EmulatedBoard
) -> None:
    fleet.until_online("zero")
    assert "the clock was earlier than this kit" in zero.console()
    assert "Starting apt-daily" not in zero.console()  # the timers of the years between
    assert zero.boots == 1
    check_joined(zero)


def test_bookworm_boots_twice_and_joins_although_its_power_is_cut_while_it_is_installed(
    fleet: BoardFleet, firstrun: EmulatedBoard
) -> None:
    firstrun.until_console(INSTALLING)
    firstrun.run("until ls -d /opt/edgestill/lib/python3*/site-packages/numpy; do sleep 1; done")
    firstrun.power_cut()
    assert firstrun.boots == 2  # firstrun.sh, and the system
    firstrun.power_on()
    fleet.until_online("firstrun")
    assert firstrun.boots == 3
    assert firstrun.console().count(INSTALLING) == 2
    check_joined(firstrun)
    assert "systemd.run" not in read_boot(firstrun.card, "cmdline.txt", firstrun.folder / "cmdline").read_text()


def test_all_boards_and_an_agent_of_this_machine_complete_a_round(fleet: BoardFleet, full: EmulatedBoard) -> None:
    """The full board trains with torch, the others their predictors."""
    fleet.until_online(*BOARDS)
    fleet.serve(devices=len(BOARDS) + 1, rounds=1)
    fleet.agent_here("here")
    closed = fleet.until_closed(BOARDS | {"here"})
    full.run("test -e /var/lib/edgestill/current.onnx")
    joined = [board for board in fleet.boards if board.name in BOARDS]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(check_joined, joined))
    for board in joined:
        note_figures(fleet, board, closed)


def test_a_power_cut_in_the_middle_of_a_round_costs_the_round_nothing_but_time(
    fleet: BoardFleet, zero: EmulatedBoard
) -> None:
    seen = len(zero.console())
    fleet.serve(devices=len(BOARDS), rounds=1)
    zero.until_console(r"agent: round \d+: training in process", after=seen)
    zero.power_cut()
    with closing(fleet.journal()) as journal:
        (number,) = (row.number for row in journal.rounds() if row.phase == "open")
        assert "zero" not in {update.device for update in journal.updates(number)}
    zero.power_on(clock=PAST)
    assert fleet.until_closed(BOARDS, number) == number
    check_joined(zero)
