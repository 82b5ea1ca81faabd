"""`edgestill push`: what the board says, line by line, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.edgestill.cli.typed import run
from tests.firmware_configs.flash.made_cards import make_kit

pytestmark = pytest.mark.light


def fake_ssh(folder: Path, then: str) -> str:
    (folder / "ssh.sh").write_text(f'cat > /dev/null; echo "$@" > "{folder}/arguments"; {then}\n')
    return f"sh {folder}/ssh.sh -p 2222"


def test_every_line_of_the_board_is_told_with_its_host_and_steers_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ssh = fake_ssh(tmp_path, r"printf 'installed [bold]\n\033[2Jreports\n'")
    code, out, _ = run(capsys, "push", make_kit(tmp_path / "kits"), "root@pi", "--ssh", ssh)
    assert code == 0
    first, second, last = out.splitlines()
    assert first == "root@pi: installed [bold]"
    assert second.startswith("root@pi: ")
    assert "reports" in second
    assert "\x1b" not in out
    assert last == "root@pi runs the kit of pi-07"
    assert "-p 2222" in (tmp_path / "arguments").read_text()


def test_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ssh = fake_ssh(tmp_path, "echo installed")
    _, out, _ = run(capsys, "push", make_kit(tmp_path / "kits"), "root@pi", "--ssh", ssh, "--json")
    assert json.loads(out) == {"device": "pi-07", "host": "root@pi", "said": ["installed"]}


def test_a_board_that_went_back_is_exit_code_7(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kit, ssh = make_kit(tmp_path / "kits"), fake_ssh(tmp_path, "exit 72")
    code, out, err = run(capsys, "push", kit, "root@pi", "--ssh", ssh, "--wait", 9)
    assert (code, out, err.count("\n")) == (7, "", 1)
    assert "did not report within 9 s" in err


def test_a_kit_that_another_fleet_has_signed_never_leaves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kit, ssh = make_kit(tmp_path / "kits"), fake_ssh(tmp_path, "exit 0")
    assert run(capsys, "push", kit, "root@pi", "--ssh", ssh, "--key", "0" * 64)[0] == 5
    assert not (tmp_path / "arguments").exists()
