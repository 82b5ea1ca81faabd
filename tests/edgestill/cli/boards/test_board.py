"""`edgestill board`."""

import json
from pathlib import Path

import pytest

from firmware_configs.boards import FOLDER
from tests.edgestill.cli.typed import run

pytestmark = pytest.mark.light


def test_boards_are_listed_and_shown(capsys: pytest.CaptureFixture) -> None:
    _, out, _ = run(capsys, "board", "list")
    assert "rpi-zero-2w" in out
    assert "jetson-orin-nano" in out
    _, out, _ = run(capsys, "board", "list", "--json")
    assert len(json.loads(out)) == 11
    _, out, _ = run(capsys, "board", "show", "rpi-5")
    assert "os           bookworm cloud-init\n" in out
    assert "python       3.11 on bookworm, 3.13 on cloud-init\n" in out
    code, _, err = run(capsys, "board", "show", "rpi-6")
    assert code == 3
    assert "no board 'rpi-6'; did you mean" in err


def test_a_profile_is_the_same_in_the_list_and_alone_and_no_line_is_cut(capsys: pytest.CaptureFixture) -> None:
    listed = {board["name"]: board for board in json.loads(run(capsys, "board", "list", "--json")[1])}
    for name, board in listed.items():
        assert json.loads(run(capsys, "board", "show", name, "--json")[1]) == board
        lines = run(capsys, "board", "show", name)[1].splitlines()
        assert [line.split()[0] for line in lines] == list(board)


@pytest.mark.parametrize("option", ["--boards-dir", "--config"])
def test_boards_of_the_users_own_are_listed_and_shown(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """A profile without figures has none in virtual time."""
    text = (FOLDER / "rpi-5.toml").read_text().replace("Raspberry Pi 5", "Rock 5").partition("[hardware]")[0]
    (tmp_path / "own").mkdir()
    (tmp_path / "own/rock-5.toml").write_text(text)
    (tmp_path / "fleet.toml").write_text('[provision]\nboards_dir = "own"\n')
    given = tmp_path / ("own" if option == "--boards-dir" else "fleet.toml")
    _, out, _ = run(capsys, "board", "list", option, given)
    assert "rock-5" in out
    assert "rpi-5" in out
    _, out, _ = run(capsys, "board", "show", "rock-5", option, given)
    assert "title        Rock 5\n" in out
    assert "\nhardware\n" in out
    _, out, _ = run(capsys, "board", "show", "rpi-5", option, given)
    assert "hardware     start_s 3.0, gflops 20.0, " in out
    code, _, err = run(capsys, "board", "list", "--boards-dir", tmp_path / "nowhere")
    assert (code, "there is no such folder" in err) == (3, True)
    code, _, err = run(capsys, "board", "list", "--boards-dir", tmp_path, "--config", tmp_path / "fleet.toml")
    assert (code, "--boards-dir and --config exclude each other" in err) == (3, True)
