"""Board profiles are complete, and what is wrong in one is named."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.boards import FOLDER, board, board_of_model, boards, read_board
from models.registry import names
from models.spec import parse_prototype

pytestmark = pytest.mark.light
EXPECTED = {
    "generic-amd64",
    "generic-arm64",
    "jetson-agx-orin",
    "jetson-agx-orin-jp7",
    "jetson-nano",
    "jetson-orin-nano",
    "jetson-orin-nano-jp7",
    "rpi-3b-plus",
    "rpi-4",
    "rpi-5",
    "rpi-zero-2w",
}


def test_every_board_has_a_profile() -> None:
    assert set(boards()) == EXPECTED


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_suggested_prototypes_exist(name: str) -> None:
    assert {parse_prototype(p)[0] for p in board(name).prototypes} <= set(names())


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("Raspberry Pi Zero 2 W Rev 1.0", "rpi-zero-2w"),
        ("Raspberry Pi 3 Model B Plus Rev 1.3", "rpi-3b-plus"),
        ("Raspberry Pi 4 Model B Rev 1.4", "rpi-4"),
        ("Raspberry Pi 5 Model B Rev 1.0", "rpi-5"),
        ("NVIDIA Jetson Nano Developer Kit", "jetson-nano"),
        ("NVIDIA Jetson Orin Nano Developer Kit", "jetson-orin-nano"),
        ("Jetson AGX Orin", "jetson-agx-orin"),
        ("Some Pi Clone", "generic-arm64"),
    ],
)
def test_a_board_is_known_by_what_it_calls_itself(model: str, name: str) -> None:
    found = board_of_model(model, "arm64")
    assert found is not None
    assert found.name == name


def test_an_architecture_without_a_profile_has_none() -> None:
    assert board_of_model("", "riscv64") is None


def test_a_name_that_is_nearly_right_is_suggested() -> None:
    with pytest.raises(ConfigError, match="did you mean 'rpi-4'"):
        board("rpi4")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('arch = "arm64"', 'arch = "arm"', "'arch' is 'arm'"),
        ("memory_mb = 4096", "memory_mb = 1000", "train_mb < service_mb < memory_mb"),
        ('os = ["bookworm", "cloud-init"]', 'os = ["bookwurm"]', "did you mean 'bookworm'"),
        ('torch = "cpu"', 'torch = "none"', "mode is full, but there is no torch"),
        ('bookworm = "3.11"', 'bookworm = "3.9"', "'python' has no version for bookworm"),
        ('"resnet8:w1"', '"resnet8:w3"', "w3"),
        ("threads = 3", "thread = 3", "did you mean 'threads'"),
        ('title = "Raspberry Pi 4 Model B"\n', "", "'title' is missing"),
    ],
)
def test_a_profile_that_is_wrong_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = (FOLDER / "rpi-4.toml").read_text()
    assert old in text
    (tmp_path / "mine.toml").write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=said) as raised:
        read_board(tmp_path / "mine.toml")
    assert "mine.toml" in str(raised.value)


def test_a_users_own_profiles_are_known_beside_the_others_and_go_first(tmp_path: Path) -> None:
    text = (FOLDER / "rpi-4.toml").read_text()
    for name in ("rock-5", "rpi-4"):
        (tmp_path / f"{name}.toml").write_text(text.replace("Raspberry Pi 4 Model B", "My board"))
    assert set(boards(tmp_path)) == {*EXPECTED, "rock-5"}
    assert board("rpi-4", tmp_path).title == board("rock-5", tmp_path).title == "My board"
    assert board("rpi-4").title == "Raspberry Pi 4 Model B"
    with pytest.raises(ConfigError, match=r"boards_dir .*/nowhere: there is no such folder"):
        boards(tmp_path / "nowhere")
