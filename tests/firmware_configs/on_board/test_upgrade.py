"""A board's agent is replaced by one that works, or stays; whatever is cut off, and whatever is handed over."""

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from firmware_configs.kits.lock import Locked
from firmware_configs.on_board import upgrade
from firmware_configs.wheel_server import WheelServer
from tests.firmware_configs.on_board.upgradable import SITE, Board
from wire.keys import generate_key

pytestmark = pytest.mark.light
KILLED = -9
POINTS = sorted(set(re.findall(r'reach\("([a-z-]+)"\)', Path(upgrade.__file__).read_text())))
BACK = ("upgrade-returning", "upgrade-switched-back", "upgrade-back")


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path / "a board")


def test_a_version_that_works_stays_and_the_former_one_is_kept_beside_it(board: Board) -> None:
    board.hand_over(board.bundle("0.3.0"))
    done = board.run()
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "edgestill: committed"), done.stderr
    assert (board.agent, board.status["phase"], board.status["number"]) == ("well", "committed", board.number)
    assert not board.waiting
    assert (board.root / "opt/edgestill" / SITE / "agent").read_text() == "old"
    first = board.current
    board.hand_over(board.bundle("0.4.0"))
    assert board.run().returncode == 0
    assert board.status["former"] == str(first)
    board.hand_over(board.bundle("0.5.0"))
    assert board.run().returncode == 0
    left = {path.name for path in (board.root / "opt/environments").iterdir()}
    assert left == {Path(board.status["former"]).name, board.current.name}  # the first of the three is gone


def test_what_both_versions_have_is_on_the_disk_once_and_does_not_travel(board: Board) -> None:
    board.hand_over(board.bundle())
    assert board.run().returncode == 0
    old, new = (folder / SITE / "numpy.py" for folder in (board.root / "opt/edgestill", board.current))
    assert old.stat().st_ino == new.stat().st_ino


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        ("ends", "the new agent has ended 3 times"),
        ("silent", "the new agent was not well within 1 s: looking for the broker"),
    ],
)
def test_a_version_that_does_not_work_goes_back_by_itself(board: Board, agent: str, reason: str) -> None:
    (board.root / "board.json").write_text(json.dumps({**board.facts, "trial_s": 1.0 if agent == "silent" else 120.0}))
    board.hand_over(board.bundle(agent=agent))
    assert board.run().returncode == 0
    assert (board.status["phase"], board.status["reason"]) == ("back", reason)
    assert board.agent == "old"
    assert (board.root / "started").read_text().split() == [agent, "old"]
    assert list((board.root / "opt/environments").iterdir()) == []


def test_a_version_that_cannot_be_imported_is_never_started(board: Board) -> None:
    board.hand_over(board.bundle(agent="broken"))
    assert board.run().returncode == 0
    assert board.status["phase"] == "refused"
    assert board.status["reason"] == "it cannot be installed: ModuleNotFoundError: No module named 'gone'"
    assert (board.agent, (board.root / "started").exists()) == ("old", False)


def test_a_wheel_that_neither_travels_nor_is_there_is_named(board: Board) -> None:
    bundle = board.bundle(more=[board.wheel("1.5", name="msgspec")], left_out=("numpy", "msgspec"))
    board.hand_over(bundle)
    assert board.run().returncode == 0
    assert board.status["reason"] == "it cannot be installed: ERROR: No matching distribution found for msgspec==1.5"
    assert board.agent == "old"


@contextmanager
def kit_serve(board: Board) -> Iterator[tuple[str, list[str]]]:
    """The server of `edgestill kit serve`: its address, and the lines that it says."""
    told: list[str] = []
    with WheelServer(board.store, "127.0.0.1", 0, told.append) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", told
        finally:
            server.shutdown()
            thread.join()


def test_what_does_not_travel_is_fetched_from_the_fleets_own_machine(board: Board) -> None:
    """As with `wheels = "fleet"`: the lock travels alone, not even edgestill's wheel does."""
    found = [board.wheel("0.3.0"), board.wheel("1.5", name="msgspec")]
    others = {one.file: {"sha256": one.sha256, "bytes": _size(board, one)} for one in found}
    others["numpy-2.0-py3-none-any.whl"] = {"sha256": "0" * 64, "bytes": 1}  # the board has it: it is not asked for
    with kit_serve(board) as (url, told):
        left_out = ("numpy", "msgspec", "edgestill")
        board.hand_over(board.bundle(more=[found[1]], left_out=left_out, fetch=url, others=others))
        assert board.run().returncode == 0
    assert (board.status["phase"], board.agent) == ("committed", "well"), board.status
    assert sorted(one.file for one in found if any(one.file in line for line in told)) == sorted(o.file for o in found)
    assert "--no-index" in (board.current / "pip-words").read_text()


def test_without_the_fleets_machine_nothing_is_changed_and_its_address_is_told(board: Board) -> None:
    one = board.wheel("1.5", name="msgspec")
    others = {
        one.file: {"sha256": one.sha256, "bytes": 1},
        "numpy-2.0-py3-none-any.whl": {"sha256": "0" * 64, "bytes": 1},
    }
    with kit_serve(board) as (url, _):
        board.hand_over(
            board.bundle(more=[one], left_out=("numpy", "msgspec"), fetch=f"{url}/elsewhere", others=others)
        )
        assert board.run().returncode == 0
    assert board.status["phase"] == "refused"
    assert board.status["reason"].startswith(f"{url}/elsewhere: has no {one.file}; ")
    assert board.agent == "old"


def test_pip_is_given_an_index_only_where_the_fleet_says_so(board: Board) -> None:
    board.hand_over(board.bundle(network=True, index="https://wheels.example/jp6"))
    assert board.run().returncode == 0
    words = (board.current / "pip-words").read_text()
    assert "--only-binary=:all: --extra-index-url https://wheels.example/jp6 --requirement" in words
    assert "--require-hashes" in words
    assert "--no-index" not in words


def _size(board: Board, wheel: Locked) -> int:
    return (board.store / wheel.sha256 / wheel.file).stat().st_size


def test_other_bundles_are_refused_with_their_reason(board: Board) -> None:
    bundles = {
        "the signature is not that of this fleet's kit key": board.bundle(key=generate_key()),
        "it is for fleet other, this board is of garden": board.bundle(fleet="other"),
        "it is not for pi-01": board.bundle(devices=("pi-02",)),
        "it has version 0.1.9, this board 0.2.0; --force installs older ones": board.bundle("0.1.9"),
        "not a bundle of edgestill": b"x" * 1000,
    }
    for python, machine in (("3.2", "x86_64"), ("3.11", "vax")):
        reason = f"it is for {machine} with Python {python}; this board is "
        bundles[reason] = board.bundle(python=python, machine=machine)
    whole = board.bundle()
    bundles["edgestill-0.3.0-py3-none-any.whl is not the wheel that was signed"] = whole[:-1] + b"!"
    for reason, bundle in bundles.items():
        board.hand_over(bundle)
        assert board.run().returncode == 0
        assert board.status["phase"] == "refused"
        assert board.status["reason"].startswith(reason)
        assert (board.agent, board.waiting) == ("old", False)
    manifest = board.bundle().replace(b'"force":false', b'"force":true ', 1)
    board.hand_over(manifest)
    assert board.run().returncode == 0
    assert board.status["reason"] == "the signature is not that of this fleet's kit key"


def test_an_older_version_comes_only_by_force_and_an_older_bundle_never(board: Board) -> None:
    newer = board.bundle("0.3.0")
    forced = board.bundle("0.1.0", force=True)
    board.hand_over(forced)
    assert board.run().returncode == 0
    assert (board.status["phase"], board.status["version"]) == ("committed", "0.1.0")
    board.hand_over(newer)
    assert board.run().returncode == 0
    assert board.status["reason"] == "it is older than the last bundle that this board accepted"
    assert board.status["version"] == "0.1.0"


def test_a_disk_without_room_is_said_before_anything_is_made(board: Board) -> None:
    board.hand_over(board.bundle(unpacked=2**60))
    assert board.run().returncode == 0
    assert "MB are free, and it takes" in board.status["reason"]
    assert list((board.root / "opt/environments").iterdir()) == []


def test_nothing_but_a_plain_file_is_taken_from_the_agents_folder(board: Board, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(board.bundle())
    exchange = board.root / "state/upgrade"
    (exchange / "request").symlink_to(tmp_path / "elsewhere")
    assert board.run().returncode == 0
    assert (board.agent, board.status["phase"]) == ("old", "")
    os.mkfifo(exchange / "request")
    assert board.run().returncode == 0
    exchange.rename(board.root / "moved")
    exchange.symlink_to(board.root / "moved")
    board.hand_over(board.bundle())
    assert board.run().returncode == 0
    assert board.agent == "old"


def crash_and_go_on(board: Board, point: str) -> None:
    """Cut the power there; at every moment the link is on a whole environment, and the next start goes on."""
    assert board.run(crash_at=point).returncode == KILLED
    assert board.agent in ("old", "well", "ends")
    done = board.run()
    assert done.returncode == 0, done.stderr
    assert not board.waiting
    assert not list((board.root / "opt/environments").glob(".*"))


@pytest.mark.parametrize("point", [point for point in POINTS if point not in (*BACK, "upgrade-refused")])
def test_power_cuts_leave_the_old_or_the_new_version_and_it_goes_on(board: Board, point: str) -> None:
    board.hand_over(board.bundle())
    crash_and_go_on(board, point)
    assert (board.status["phase"], board.agent) == ("committed", "well")


@pytest.mark.parametrize("point", BACK)
def test_power_cuts_on_the_way_back_leave_the_old_version(board: Board, point: str) -> None:
    board.hand_over(board.bundle(agent="ends"))
    crash_and_go_on(board, point)
    assert (board.status["phase"], board.agent) == ("back", "old")


def test_a_power_cut_after_a_refusal_changes_nothing(board: Board) -> None:
    board.hand_over(board.bundle(fleet="other"))
    crash_and_go_on(board, "upgrade-refused")
    assert (board.status["phase"], board.agent) == ("refused", "old")


def test_a_trial_that_is_cut_off_again_and_again_is_given_up(board: Board) -> None:
    board.hand_over(board.bundle())
    for _ in range(4):
        assert board.run(crash_at="upgrade-restarted").returncode == KILLED
    assert board.run().returncode == 0
    assert (board.status["phase"], board.status["reason"]) == ("back", "its trial was cut off 3 times")
    assert board.agent == "old"


def test_another_kit_ends_what_was_under_way(board: Board) -> None:
    board.hand_over(board.bundle())
    assert board.run(crash_at="upgrade-switched").returncode == KILLED
    assert board.run("--reset").returncode == 0
    assert (board.status["phase"], board.status["reason"]) == ("back", "another kit was installed")
    assert (board.agent, board.waiting) == ("old", False)
    assert board.status["number"] == board.number  # what was accepted before is not accepted again


def test_a_damaged_status_is_no_status(board: Board) -> None:
    (board.root / "status/status.json").write_text("{")
    board.hand_over(board.bundle())
    assert board.run().returncode == 0
    assert json.loads((board.root / "status/status.json").read_text())["phase"] == "committed"
