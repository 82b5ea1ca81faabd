"""Wheels are collected by pip, for the board's platform and Python."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.boards import board
from firmware_configs.kits.wheels import collect_wheels, platforms
from tests.firmware_configs.wheels import add_wheel

pytestmark = pytest.mark.light


def test_platform_tags_go_from_new_to_old() -> None:
    tags = list(platforms("arm64", 28))
    assert tags[0] == "manylinux_2_28_aarch64"
    assert tags[-3:] == ["manylinux_2_17_aarch64", "manylinux2014_aarch64", "linux_aarch64"]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of pip's world."""
    index = tmp_path / "index"
    index.mkdir()
    add_wheel(index, "edgestill", "0.1", requires=["native", "heavy; extra == 'train'"], extras=["train"])
    add_wheel(index, "heavy", "1.0")
    for platform in ("manylinux_2_28_aarch64", "manylinux_2_28_x86_64"):
        add_wheel(index, "native", "2.0", tag=f"cp311-cp311-{platform}")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return index


def test_the_wheels_are_those_of_the_board(tmp_path: Path, index: Path) -> None:
    found = collect_wheels(board("rpi-4"), "3.11", tmp_path / "wheels")
    assert [path.name for path in found] == [
        "edgestill-0.1-py3-none-any.whl",
        "heavy-1.0-py3-none-any.whl",
        "native-2.0-cp311-cp311-manylinux_2_28_aarch64.whl",
    ]


@pytest.mark.slow  # pip takes seconds to say anything
def test_a_light_board_gets_no_torch_and_what_is_missing_is_named(tmp_path: Path, index: Path) -> None:
    light = collect_wheels(
        board("rpi-zero-2w"), "3.11", tmp_path / "light", package=str(index / "edgestill-0.1-py3-none-any.whl")
    )
    assert [path.name.partition("-")[0] for path in light] == ["edgestill", "native"]
    with pytest.raises(ConfigError, match="pip download failed: No matching distribution found for native"):
        collect_wheels(board("rpi-4"), "3.12", tmp_path / "other")
