"""Where a board's torch comes from."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.boards import board
from firmware_configs.kits.torch_source import torch_source

pytestmark = pytest.mark.light


def test_arm_boards_take_that_of_their_lock_and_others_look_for_a_build_without_cuda(tmp_path: Path) -> None:
    assert torch_source(board("rpi-4"), None, tmp_path) is None
    amd64 = torch_source(board("generic-amd64"), None, tmp_path)
    assert amd64 is not None
    assert (amd64.requirement, amd64.carried) == ("torch==2.13.0+cpu", True)


def test_a_jetson_needs_to_be_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="board jetson-orin-nano trains with NVIDIA's torch: give 'torch'"):
        torch_source(board("jetson-orin-nano"), None, tmp_path)
    index = torch_source(board("jetson-orin-nano"), "https://wheels.example/jp6", tmp_path)
    assert index is not None
    assert (index.options, index.carried) == (("--index-url", "https://wheels.example/jp6"), False)
    system = torch_source(board("jetson-orin-nano"), "system", tmp_path)
    assert system is not None
    assert system.requirement is None


def test_a_folder_is_relative_to_the_manifest_and_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "jp6").mkdir()
    folder = torch_source(board("rpi-4"), "jp6", tmp_path)
    assert folder is not None
    assert folder.options == ("--no-index", "--find-links", str(tmp_path / "jp6"))
    for wrong in ("jp7", "x" * 5000, "a\0b", "~nobody-of-this-name/x"):
        with pytest.raises(ConfigError, match=r"'torch': .* is no folder of "):
            torch_source(board("rpi-4"), wrong, tmp_path)
