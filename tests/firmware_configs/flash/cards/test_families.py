"""The OS family follows from what is on the card, or is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.flash.cards.families import check_family, detect_family
from firmware_configs.flash.cards.mounted import Mounted
from tests.firmware_configs.flash.made_cards import BOOKWORM, CARDS, JETSON, TRIXIE, make_folder

UBUNTU = {name: data for name, data in TRIXIE.items() if name != "issue.txt"}


def card(folder: Path, files: dict[str, bytes]) -> Mounted:
    folder.mkdir(exist_ok=True)
    return Mounted(make_folder(folder, files))


@pytest.mark.parametrize("family", CARDS)
def test_each_family_is_known_by_its_files(family: str, tmp_path: Path) -> None:
    assert detect_family(card(tmp_path, CARDS[family])) == family
    assert detect_family(card(tmp_path, CARDS[family]), family) == family


def test_ubuntu_for_the_pi_is_known_without_an_issue_txt(tmp_path: Path) -> None:
    assert detect_family(card(tmp_path, UBUNTU)) == "cloud-init"


@pytest.mark.parametrize(
    ("issue", "why"),
    [
        (b"Raspberry Pi reference 2023-05-03\n", "the oldest supported one is Bookworm"),
        (b"Raspberry Pi reference 2025-12-04\n", "give --os bookworm if it is the legacy"),
        (b"something else\n", "give --os"),
    ],
)
def test_a_pi_whose_system_is_not_clear_is_not_guessed(issue: bytes, why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=why):
        detect_family(card(tmp_path, {**BOOKWORM, "issue.txt": issue}))


def test_the_user_settles_a_doubt(tmp_path: Path) -> None:
    late = {**BOOKWORM, "issue.txt": b"Raspberry Pi reference 2025-12-04\n"}
    assert detect_family(card(tmp_path, late), "bookworm") == "bookworm"


def test_the_user_can_not_contradict_the_card(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--os bookworm, but it is cloud-init: user-data is there"):
        detect_family(card(tmp_path, TRIXIE), "bookworm")
    old = {**BOOKWORM, "issue.txt": b"Raspberry Pi reference 2021-01-11\n"}
    with pytest.raises(ConfigError, match="oldest"):
        detect_family(card(tmp_path / "old", old), "bookworm")


@pytest.mark.parametrize("files", [{}, {"notes.txt": b"holiday"}, {"config.txt": b""}, {"EFI/BOOT/BOOTAA64.efi": b""}])
def test_what_is_no_boot_partition_is_refused_whatever_the_user_says(files: dict[str, bytes], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"not the boot partition|no place for a kit"):
        detect_family(card(tmp_path, files), "bookworm")


def test_only_families_that_cards_have_are_known() -> None:
    check_family(None)
    check_family("jetson")
    with pytest.raises(ConfigError, match="did you mean 'bookworm'"):
        check_family("bookwurm")


def test_a_jetson_is_known_by_its_root(tmp_path: Path) -> None:
    assert detect_family(card(tmp_path, JETSON)) == "jetson"
