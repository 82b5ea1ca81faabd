"""Texts of settings: what they mean, and how one that means nothing is answered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigError
from fleet.simulation.settings.text_forms import (
    BOARD,
    pairs,
    parse_batch,
    parse_classes,
    parse_devices,
    parse_partition_options,
    parse_prototypes,
)
from fleet.virtual.hardware import known_hardware

pytestmark = pytest.mark.light


@pytest.mark.parametrize("text", ["3", " +3 ", " " * 40 + "3"])
def test_counted_devices_are_all_of_one_board_that_is_known(text: str) -> None:
    assert parse_devices(text, None) == (BOARD,) * 3
    assert BOARD in known_hardware(None)


def test_devices_are_named_by_board_one_of_the_users_file_too(tmp_path: Path) -> None:
    assert parse_devices("rpi4:2, rpi-zero2w", None) == ("rpi-4", "rpi-4", "rpi-zero-2w")
    with pytest.raises(ConfigError, match="no board 'mine'"):
        parse_devices("mine:2", None)
    with pytest.raises(ConfigError, match=r"mine\.toml"):
        parse_devices("mine:2", str(tmp_path / "mine.toml"))


@pytest.mark.parametrize(
    ("parse", "text", "says"),
    [
        (lambda text: parse_devices(text, None), "0", "--devices 0; give at least 1"),
        (lambda text: parse_devices(text, None), "-4", "--devices -4; give at least 1"),
        (lambda text: parse_devices(text, None), "9" * 5000, "--devices .*; give at most 100,000"),
        (parse_classes, "0,a", "--source-classes '0,a': give class numbers from 0, such as 0,1,2"),
        (parse_classes, "-1", "--source-classes '-1': give class numbers"),
        (parse_batch, "0", "--batch-devices '0': give auto, off, or how many devices"),
        (parse_batch, "Auto", "--batch-devices 'Auto': give auto, off"),
        (parse_batch, "9" * 5000, "--batch-devices '9{80}': give auto, off"),
    ],
)
def test_a_text_that_means_nothing_is_told_with_what_to_write(
    parse: Callable[[str], Any], text: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        parse(text)
    assert len(str(caught.value)) < 200


def test_lists_are_separated_by_commas_with_room_for_slips() -> None:
    assert parse_prototypes("cnn:w1, mlp:fp32,") == ("cnn:w1", "mlp:fp32")
    assert parse_prototypes(" ") == ()
    assert parse_classes("0, 2,") == (0, 2)
    assert (parse_batch("auto"), parse_batch("off"), parse_batch("8")) == (0, 1, 8)


def test_a_table_says_what_the_words_say() -> None:
    words = ["min_size=0", "equal=no"]
    assert pairs("option", words) == pairs("option", {"min_size": 0, "equal": False}) == words
    assert pairs("fusion", {"keep_start": True, "steps": 5}) == ["keep_start=true", "steps=5"]
    assert parse_partition_options({"min_size": 0, "equal": False}) == parse_partition_options(words)
