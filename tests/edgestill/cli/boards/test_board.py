"""`edgestill board`."""

import json

import pytest

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
