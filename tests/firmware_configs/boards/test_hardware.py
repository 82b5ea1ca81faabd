"""The table [hardware] of a profile."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.boards import FOLDER, board, boards, read_board
from firmware_configs.boards.hardware import Hardware

pytestmark = pytest.mark.light
PI = Hardware(start_s=6.0, gflops=8.0, up_mbps=60.0, down_mbps=80.0, train_watts=6.4, radio_watts=3.6, idle_watts=2.7)


def test_every_profile_that_ships_has_its_figures() -> None:
    assert board("rpi-4").hardware == PI
    assert all(known.hardware is not None for known in boards().values())


def test_a_profile_of_the_users_own_may_lack_them(tmp_path: Path) -> None:
    text = (FOLDER / "rpi-4.toml").read_text().partition("[hardware]")[0]
    (tmp_path / "rock-5.toml").write_text(text)
    assert read_board(tmp_path / "rock-5.toml").hardware is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("gflops = 8.0\n", "", r"mine.toml \[hardware\]: 'gflops' is missing"),
        ("gflops = 8.0", "gflops = 0", r"mine.toml \[hardware\]: 'gflops' is 0"),
        ("gflops = 8.0", "gflop = 8.0", r"mine.toml \[hardware\]: unknown key 'gflop'; did you mean 'gflops'"),
    ],
)
def test_a_figure_that_is_wrong_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = (FOLDER / "rpi-4.toml").read_text()
    assert old in text
    (tmp_path / "mine.toml").write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=said):
        read_board(tmp_path / "mine.toml")
