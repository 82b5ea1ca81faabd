"""Tables for people."""

import io

import pytest

from edgestill import output
from edgestill.output import print_table

COLUMNS, ROWS = ["recipe", "accuracy"], [["a-long-name-of-a-recipe", "91.2 ± 0.4"], ["b", "5.0 ± 0.1"]]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What is printed to a terminal of 20 columns."""
    stream = io.StringIO()
    monkeypatch.setattr(output.out, "_file", stream)
    monkeypatch.setattr(output.out, "width", 20)
    return stream


def test_a_whole_table_is_not_cut(narrow: io.StringIO) -> None:
    print_table("", COLUMNS, ROWS, whole=True)
    lines = [line.rstrip() for line in narrow.getvalue().splitlines()]
    assert lines == [
        "recipe                   accuracy",
        "a-long-name-of-a-recipe  91.2 ± 0.4",
        "b                        5.0 ± 0.1",
    ]


def test_words_of_strangers_do_not_steer_the_terminal(narrow: io.StringIO) -> None:
    print_table("", ["board"], [["\x1b[2J[/red]\x9b"]], whole=True)
    output.out.print("made \x1b]0;title\x07 by", markup=False)
    assert narrow.getvalue().split("\n")[1:] == ["?[2J[/red]?", "made ?]0;title? by", ""]


def test_other_tables_fit_the_terminal(narrow: io.StringIO) -> None:
    print_table("", COLUMNS, ROWS)
    assert max(map(len, narrow.getvalue().splitlines())) <= 20
