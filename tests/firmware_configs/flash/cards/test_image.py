"""Images are written without mounting, and are the old one or the new one at every moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError
from firmware_configs.flash.cards.image import Image, copy_sparse
from firmware_configs.flash.show import held_kits
from tests.firmware_configs.flash.made_cards import (
    BOOKWORM,
    CARDS,
    TRIXIE,
    check_fat,
    flash,
    killed,
    make_folder,
    make_image,
    make_kit,
    needs_tools,
    tree,
)

pytestmark = needs_tools


def everything(image: Image, folder: str = "") -> dict[str, bytes]:
    """Every file of the boot partition."""
    found: dict[str, bytes] = {}
    for name in image.names(folder):
        path = f"{folder}/{name}" if folder else name
        found |= everything(image, path) or {path: image.read(path) or b""}
    return found


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("images")
    return {
        "bookworm": make_image(folder / "bookworm.img", BOOKWORM),
        "cloud-init": make_image(folder / "cloud-init.img", TRIXIE, table="gpt"),
    }


@pytest.fixture
def card(cards: dict[str, Path], tmp_path: Path) -> Path:
    copy_sparse(cards["cloud-init"], tmp_path / "card.img")
    return tmp_path / "card.img"


@pytest.mark.parametrize("family", ["bookworm", "cloud-init"])
def test_an_image_holds_what_a_mounted_card_would(family: str, cards: dict[str, Path], tmp_path: Path) -> None:
    image, mounted = tmp_path / "card.img", make_folder(tmp_path / "mounted", CARDS[family])
    copy_sparse(cards[family], image)
    for device in ("pi-01", "pi-02"):
        kit = make_kit(tmp_path / "kits", device)
        flash(kit, image)
        flash(kit, mounted)
        assert everything(Image(image)) == tree(mounted)
    check_fat(image, tmp_path)
    (held,) = held_kits(Image(image), family)
    assert (held.device, held.armed, held.damaged) == ("pi-02", True, ())


def test_only_the_boot_partition_changes_and_holes_stay_holes(card: Path, tmp_path: Path) -> None:
    with card.open("rb+") as disk:
        disk.seek((8192 + 81920) * 512 + 4096)
        disk.write(b"the root file system")
    before = card.read_bytes()
    flash(make_kit(tmp_path / "kits"), card)
    after = card.read_bytes()
    start, end = 8192 * 512, (8192 + 81920) * 512
    assert (after[:start], after[end:]) == (before[:start], before[end:])
    assert after != before
    assert card.stat().st_blocks * 512 < 8 << 20


@pytest.mark.parametrize("at", ["flash-image-copied", "flash-image-written", "flash-image-put"])
def test_a_run_that_is_cut_leaves_the_old_image_or_the_new(at: str, card: Path, tmp_path: Path) -> None:
    kit, before = make_kit(tmp_path / "kits"), card.read_bytes()
    assert killed(at, lambda: flash(kit, card))
    if at == "flash-image-put":
        (held,) = held_kits(Image(card), "cloud-init")
        assert (held.armed, held.damaged) == (True, ())
        check_fat(card, tmp_path)
    else:
        assert card.read_bytes() == before
    flash(kit, card)
    assert held_kits(Image(card), "cloud-init")[0].armed
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_an_image_can_be_made_from_another_which_stays(card: Path, tmp_path: Path) -> None:
    before = card.read_bytes()
    made = tmp_path / "pi-07.img"
    flash(make_kit(tmp_path / "kits"), made, base=card)
    assert card.read_bytes() == before
    assert held_kits(Image(made), "cloud-init")[0].device == "pi-07"


def test_a_kit_that_does_not_fit_leaves_the_image_as_it_was(card: Path, tmp_path: Path) -> None:
    kit, before = make_kit(tmp_path / "kits", size=50_000_000), card.read_bytes()
    with pytest.raises(ConfigError, match=r"(?i)mcopy: .*full"):
        flash(kit, card)
    assert card.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_an_image_without_a_boot_partition_is_refused(tmp_path: Path) -> None:
    table = bytearray(1 << 20)
    table[446 + 4], table[446 + 8], table[446 + 12], table[510:512] = 0x83, 8, 8, b"\x55\xaa"
    (tmp_path / "x.img").write_bytes(table)
    with pytest.raises(ConfigError, match="has no FAT partition"):
        Image(tmp_path / "x.img")


def test_a_link_that_was_planted_beside_the_image_is_not_followed(card: Path, tmp_path: Path) -> None:
    """The copy had a name that anybody could know: whoever may write in the folder chose where the keys go."""
    (tmp_path / "elsewhere").write_text("another's")
    (tmp_path / ".card.img.edgestill").symlink_to(tmp_path / "elsewhere")
    flash(make_kit(tmp_path / "kits"), card)
    assert (tmp_path / "elsewhere").read_text() == "another's"
    assert held_kits(Image(card), "cloud-init")[0].armed


def test_where_the_target_is_a_link_the_image_that_it_names_is_written(card: Path, tmp_path: Path) -> None:
    link = tmp_path / "links" / "card"
    link.parent.mkdir()
    link.symlink_to("../card.img")
    flash(make_kit(tmp_path / "kits"), link)
    assert link.is_symlink()
    assert held_kits(Image(card), "cloud-init")[0].armed
    assert [path.name for path in link.parent.iterdir()] == ["card"]


def test_an_image_with_keys_is_its_owners_alone_from_the_first_byte_on(
    card: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card.chmod(0o644)
    seen: list[int] = []

    def look(point: str) -> None:
        seen.extend(path.stat().st_mode & 0o777 for path in tmp_path.glob(".card.img.*"))

    monkeypatch.setattr("firmware_configs.flash.cards.image.reach", look)
    flash(make_kit(tmp_path / "kits"), card)
    assert seen == [0o600, 0o600]
    assert card.stat().st_mode & 0o777 == 0o600
    made = tmp_path / "new.img"
    kit = make_kit(tmp_path / "kits", "pi-09")
    flash(kit, made, base=card)
    assert made.stat().st_mode & 0o777 == 0o600


def test_two_runs_do_not_remove_each_others_copies(card: Path, tmp_path: Path) -> None:
    import fcntl

    left, used = tmp_path / ".card.img.abc.edgestill", tmp_path / ".card.img.def.edgestill"
    left.write_text("a run that was killed")
    with used.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        flash(make_kit(tmp_path / "kits"), card)
    assert (left.exists(), used.exists()) == (False, True)
