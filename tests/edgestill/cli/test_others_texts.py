"""Where commands show what cards, kits and devices say of themselves."""

import json
from pathlib import Path

import pytest

from edgestill.cli.main import main
from edgestill.cli.service.status import _lines, device_row
from tests.firmware_configs.flash.made_cards import BOOKWORM, make_folder, make_kit

pytestmark = pytest.mark.light
EVIL = "\x1b]0;owned\x07\x1b[31m[bold]now"


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[object, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(arg) for arg in args])
    said = capsys.readouterr()
    return ended.value.code, said.out + said.err


def test_created_of_a_card_is_shown_without_its_escapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = {"fleet": "f\x1b[2J", "device": "pi\nforged: line", "board": "b", "created": EVIL, "files": {}}
    card = make_folder(tmp_path / "card", {**BOOKWORM, "edgestill/pi-1/kit.json": json.dumps(facts).encode()})
    code, said = run(capsys, "flash", "--read", card)
    assert code == 0
    assert "\x1b" not in said
    assert "\x07" not in said
    assert "[bold]now" in said
    assert len(said.splitlines()) == 2


def test_created_of_a_kit_that_is_no_time_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kit = make_kit(tmp_path / "kits", created=EVIL)
    code, said = run(capsys, "kit", "verify", kit)
    assert (code, "'created' is" in said, "\x1b" in said) == (3, True, False)


def test_an_error_with_a_files_name_in_it_is_plain_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(capsys, "config", "check", tmp_path / f"{EVIL}.toml")
    assert code == 3
    assert "\x1b" not in said
    assert "[bold]now.toml" in said


def test_reasons_of_devices_cannot_begin_a_line_of_status() -> None:
    device = {
        "id": "pi-01",
        "revoked": False,
        "muted_until": 0,
        "status": "online",
        "state": "online",
        "prototype": f"cnn{EVIL}",
    }
    device |= {
        "examples": 1,
        "accepted": 0,
        "late": 0,
        "refused": 1,
        "fused": None,
        "limited": 0,
        "other_extractor": False,
        "problem": f"diverged {EVIL}",
        "installing": f"no room {EVIL}",
        "version": EVIL,
        "upgrade": "back",
        "upgrade_reason": EVIL,
        "upgrade_to": EVIL,
        "data": {
            "waiting": f"none in {EVIL}",
            "unlabeled": 1,
            "rejected": 1,
            "reason": f"bad {EVIL}",
            "lacks": (EVIL,),
        },
    }
    device["data"] |= {"unknown": {EVIL: 2}}
    facts = {"running": True, "connected": True, "fleet": "f", "rounds_completed": 0, "rounds_wanted": 1}
    facts |= {"hold": "running", "done": "", "phase": "collecting", "round": None, "devices": [device]}
    facts["waiting_for"] = f"waiting for 1 of 1 devices: pi-01 (failed: {EVIL})"
    facts["refusals"] = [{"device": "pi-01", "round": 1, "reason": f"bad\nfleet f: all is well {EVIL}"}]
    assert not any("\n" in line or "\x1b" in line for line in _lines(facts))
    assert not any("\x1b" in cell for cell in device_row(device))
