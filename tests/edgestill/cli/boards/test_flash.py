"""`edgestill flash` on the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgestill.cli.main import main
from firmware_configs.flash.cards.image import Image
from tests.firmware_configs.flash.made_cards import (
    BOOKWORM,
    IMAGER,
    JETSON,
    TRIXIE,
    make_folder,
    make_image,
    make_kit,
    needs_tools,
    tree,
)
from wire.keys import generate_key, public_key_hex


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        main(["flash", *(str(arg) for arg in args)])
    out, err = capsys.readouterr()
    assert isinstance(done.value.code, int)
    return done.value.code, out, err


def test_a_kit_is_written_and_shown_without_its_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kit, card = make_kit(tmp_path / "kits"), make_folder(tmp_path / "card", TRIXIE)
    code, out, err = run(capsys, kit, "--to", card)
    assert (code, err) == (0, "")
    assert "(cloud-init) holds the kit of pi-07: 15 files written and read back" in out
    code, shown, _ = run(capsys, "--read", card)
    assert code == 0
    assert "pi-07 of garden, rpi-4, made 2026-11-16T10:00:00Z: whole, installed at the next boot" in shown
    _, facts, _ = run(capsys, "--read", card, "--json")
    assert json.loads(facts)["kits"][0]["device"] == "pi-07"
    assert "SECRET" not in out + shown + facts
    assert "password" not in out + shown + facts


def test_a_dry_run_shows_every_file_and_writes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kit, card = make_kit(tmp_path / "kits"), make_folder(tmp_path / "card", BOOKWORM)
    before = tree(tmp_path)
    code, out, _ = run(capsys, kit, "--to", card, "--dry-run")
    assert code == 0
    assert tree(tmp_path) == before
    _, said, _ = run(capsys, kit, "--to", card, "--json")
    facts = json.loads(said)
    for file in facts["files"] + facts["changed"]:
        assert f" {file['path']}  {file['bytes']} bytes" in out
    assert "change cmdline.txt" in out
    assert "tls/device.key  3000 bytes, secret" in out
    assert "nothing was written" in out
    assert "SECRET" not in out


def test_next_gives_every_card_another_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for device in ("pi-01", "pi-02"):
        make_kit(tmp_path / "kits", device)
    cards = [make_folder(tmp_path / f"card-{n}", BOOKWORM) for n in range(3)]
    for card, device in zip(cards, ("pi-01", "pi-02"), strict=False):
        code, out, _ = run(capsys, tmp_path / "kits", "--next", "--to", card)
        assert (code, f"the kit of {device}" in out) == (0, True)
    code, _, err = run(capsys, tmp_path / "kits", "--next", "--to", cards[2])
    assert (code, "all 2 kits for bookworm have been flashed" in err) == (3, True)
    assert tree(cards[2]) == BOOKWORM


def test_a_kit_that_the_board_would_ignore_is_shown_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kit, card = make_kit(tmp_path / "kits"), make_folder(tmp_path / "card", IMAGER)
    _, said, _ = run(capsys, kit, "--to", card)
    assert "note: cmdline.txt named the instance rpi-imager-1763000000000; it gets the kit's" in said
    assert "whole, installed at the next boot" in run(capsys, "--read", card)[1]
    (card / "cmdline.txt").write_bytes(IMAGER["cmdline.txt"])  # as flashing left it before it knew of Imager's word
    _, said, _ = run(capsys, "--read", card)
    assert "not used by the next boot: cloud-init would take instance rpi-imager-1763000000000, not the kit's" in said


def test_a_card_that_was_left_in_the_reader_keeps_its_kit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for device in ("pi-01", "pi-02"):
        make_kit(tmp_path / "kits", device)
    card = make_folder(tmp_path / "card", BOOKWORM)
    run(capsys, tmp_path / "kits", "--next", "--to", card)
    before = tree(card)
    code, _, err = run(capsys, tmp_path / "kits", "--next", "--to", card)
    assert (code, "holds the kit of pi-01" in err, "--replace" in err) == (3, True, True)
    assert tree(card) == before
    code, out, _ = run(capsys, tmp_path / "kits", "--next", "--to", card, "--replace")
    assert (code, "the kit of pi-02" in out) == (0, True)


@pytest.mark.parametrize("file", ["agent.toml", "kit.json", "boot/bookworm/firstrun.sh"])
def test_a_kit_that_was_tampered_with_touches_no_card(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kit, card = make_kit(tmp_path / "kits"), make_folder(tmp_path / "card", BOOKWORM)
    (kit / file).write_bytes((kit / file).read_bytes().replace(b"pi-07", b"pi-66"))
    code, _, _ = run(capsys, kit, "--to", card)
    assert code == 5
    assert tree(card) == BOOKWORM


def test_a_pinned_key_counts_and_not_the_one_beside_the_kit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kit, card = make_kit(tmp_path / "kits"), make_folder(tmp_path / "card", BOOKWORM)
    code, _, err = run(capsys, kit, "--to", card, "--key", public_key_hex(generate_key().public_key()))
    assert (code, "kit.sig does not match" in err) == (5, True)
    (tmp_path / "kits/fleet-kit.pub").rename(tmp_path / "pinned.pub")
    assert run(capsys, kit, "--to", card)[0] == 3
    assert run(capsys, kit, "--to", card, "--key", tmp_path / "pinned.pub")[0] == 0


def test_a_kit_without_files_for_the_card_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from firmware_configs.kits.kit import Kit, KitFile, write_kit
    from tests.firmware_configs.flash.made_cards import KEY

    make_kit(tmp_path / "kits")
    when = "2026-11-16T10:00:00Z"
    only = Kit(
        fleet="f",
        device="nano",
        board="b",
        os=("jetson",),
        created=when,
        files={"agent.toml": KitFile(b"")},
    )
    write_kit(tmp_path / "kits/nano", only, KEY)
    code, _, err = run(capsys, tmp_path / "kits/nano", "--to", make_folder(tmp_path / "card", BOOKWORM))
    assert (code, "has boot files for jetson, but the card is bookworm" in err) == (3, True)


def test_a_jetson_is_flashed_at_its_root(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = make_folder(tmp_path / "root", JETSON)
    code, out, _ = run(capsys, make_kit(tmp_path / "kits"), "--to", card)
    assert (code, "(jetson) holds the kit of pi-07" in out) == (0, True)
    assert "installed at the next boot" in run(capsys, "--read", card)[1]


@needs_tools
def test_images_are_made_from_a_base_one_per_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = make_image(tmp_path / "raspios.img", BOOKWORM)
    for device in ("pi-01", "pi-02"):
        make_kit(tmp_path / "kits", device)
        made = tmp_path / f"{device}.img"
        assert run(capsys, tmp_path / "kits", "--next", "--from", base, "--to", made)[0] == 0
        assert f"{device} of garden" in run(capsys, "--read", made)[1]
    assert Image(base).names("edgestill") == []


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "KIT or --to is missing"),
        (["KIT"], "KIT or --to is missing"),
        (["KIT", "--read", "x"], "--read only shows"),
        (["KIT", "--to", "nowhere"], "no such folder, image or disk"),
        (["KIT", "--to", "card", "--os", "windows"], "no such family"),
        (["KIT", "--to", "card", "--from", "nowhere"], "no such image"),
        (["nokit", "--to", "card"], "fleet-kit.pub"),
        (["nokits", "--next", "--to", "card"], "no such folder"),
    ],
)
def test_wrong_usage_is_told_in_a_line(
    args: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kit = make_kit(tmp_path / "kits")
    make_folder(tmp_path / "card", BOOKWORM)
    (tmp_path / "nokit").mkdir()
    code, _, err = run(capsys, *(str(kit) if arg == "KIT" else arg for arg in args))
    assert (code, said in err, err.count("\n")) == (3, True, 1)


def test_the_command_itself_killed_half_way_leaves_the_card_as_it_was(tmp_path: Path) -> None:
    kit, card = make_kit(tmp_path / "kits"), make_folder(tmp_path / "card", TRIXIE)
    command = [sys.executable, "-m", "edgestill", "flash", str(kit), "--to", str(card)]
    cut = subprocess.run(command, env={**os.environ, "EDGESTILL_CRASH_AT": "flash-staged"}, check=False)
    assert cut.returncode == -9
    assert TRIXIE.items() <= tree(card).items()
    assert not (tmp_path / "kits/flashed.json").exists()
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    assert json.loads((tmp_path / "kits/flashed.json").read_text())["pi-07"]["target"] == str(card)
