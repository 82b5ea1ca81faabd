"""Boards in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.boards import FOLDER, boards
from firmware_configs.boards.hardware import Hardware
from fleet.virtual.hardware import Trip, Usage, find_board, known_hardware, parse_boards, usage, waiting

PI = Hardware(start_s=1, gflops=2, up_mbps=8, down_mbps=16, train_watts=5, radio_watts=3, idle_watts=1)


def test_a_round_costs_its_transfers_and_its_training() -> None:
    made = usage(PI, Trip(down_bytes=2_000_000, flops=10e9, up_bytes=3_000_000))
    # 16 Mbit at 16, a second and 10 Gflop at 2, 24 Mbit at 8
    assert made == Usage(seconds=10.0, train_seconds=6.0, joules=42.0, bytes_up=3_000_000, bytes_down=2_000_000)
    assert waiting(PI, 3.0) == Usage(joules=3.0 * PI.idle_watts)
    assert waiting(PI, -1.0) == Usage(), "a late device waits for nobody"
    assert made + made == Usage(seconds=20.0, train_seconds=12.0, joules=84.0, bytes_up=6_000_000, bytes_down=4_000_000)


def test_every_board_profile_has_its_hardware() -> None:
    known = known_hardware()
    assert known.keys() == boards().keys()
    assert all(known[name] == board.hardware for name, board in boards().items())
    assert known["rpi-zero-2w"].gflops < known["rpi-4"].gflops < known["jetson-orin-nano"].gflops


def test_a_file_of_ones_own_goes_before(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    table = "start_s = 5\ngflops = 9.5\nup_mbps = 1\ndown_mbps = 2\ntrain_watts = 7\nradio_watts = 3\nidle_watts = 2\n"
    path.write_text(f"[rpi4]\n{table}")
    known = known_hardware(path)
    assert known["rpi-4"] == Hardware(
        start_s=5, gflops=9.5, up_mbps=1, down_mbps=2, train_watts=7, radio_watts=3, idle_watts=2
    )
    assert known["rpi-5"] == known_hardware()["rpi-5"]
    path.write_text(f"[my-board]\n{table}")
    known = known_hardware(path)
    assert known["my-board"].gflops == 9.5
    assert parse_boards("my-board:2,rpi4", known) == ("my-board", "my-board", "rpi-4")
    path.write_text(f'["My board"]\n{table}')
    with pytest.raises(ConfigError, match=r"mine.toml \[My board\]: board 'My board': an id is"):
        known_hardware(path)
    path.write_text("[rpi4]\ngflop = 1\n")
    with pytest.raises(ConfigError, match=r"mine.toml \[rpi4\].*gflop"):
        known_hardware(path)


def test_profiles_of_ones_own_bring_their_figures(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a folder without board profiles"):
        known_hardware(tmp_path)
    text = (FOLDER / "rpi-4.toml").read_text()
    (tmp_path / "rock-5.toml").write_text(text.replace("gflops = 8.0", "gflops = 30.5"))
    (tmp_path / "unmeasured.toml").write_text(text.partition("[hardware]")[0])
    known = known_hardware(tmp_path)
    assert known["rock-5"].gflops == 30.5
    assert known.keys() == {*known_hardware(), "rock-5"}
    assert parse_boards("rock5:2,rpi4", known) == ("rock-5", "rock-5", "rpi-4")


@pytest.mark.parametrize(
    ("text", "board"),
    [("rpi4", "rpi-4"), ("rpi-zero2w", "rpi-zero-2w"), ("jetson-orin", "jetson-orin-nano"), ("RPI-5", "rpi-5")],
)
def test_boards_are_found_by_short_names(text: str, board: str) -> None:
    assert find_board(text) == board


def test_fleets_are_counted_by_board() -> None:
    assert parse_boards("rpi4:2, rpi-zero2w,jetson-orin:1") == ("rpi-4", "rpi-4", "rpi-zero-2w", "jetson-orin-nano")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rpi:2", "no board 'rpi'; did you mean rpi-3b-plus or rpi-4 or rpi-5 or rpi-zero-2w"),
        ("toaster:2", "no board 'toaster'"),
        ("rpi4:0", "BOARD:COUNT"),
        ("rpi4:x", "BOARD:COUNT"),
        ("", "no board ''"),
    ],
)
def test_what_is_no_fleet_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_boards(text)
