"""Tables for people."""

import io

import pytest
from rich.console import Group
from rich.text import Text

from edgestill.cli import output
from edgestill.cli.output import print_table, print_whole

COLUMNS, ROWS = ["recipe", "accuracy"], [["a-long-name-of-a-recipe", "91.2 ± 0.4"], ["b", "5.0 ± 0.1"]]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What is printed to a terminal of 20 columns."""
    stream = io.StringIO()
    monkeypatch.setattr(output.out, "_file", stream)
    monkeypatch.setattr(output.out, "width", 20)
    monkeypatch.setattr(output.out, "_force_terminal", True)
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
    assert narrow.getvalue().split("\n")[1:] == ["�[2J[/red]�", "made �]0;title by", ""]


def test_other_tables_fit_the_terminal(narrow: io.StringIO) -> None:
    print_table("", COLUMNS, ROWS)
    assert max(map(len, narrow.getvalue().splitlines())) <= 20


def test_nothing_is_cut_that_a_program_reads(narrow: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output.out, "_force_terminal", False)
    print_table("", COLUMNS, ROWS)
    long = "word " * 1000
    print_whole(Group(Text(long), Text("next")))
    lines = [line.rstrip() for line in narrow.getvalue().splitlines()]
    assert lines[1:] == [
        "a-long-name-of-a-recipe  91.2 ± 0.4",
        "b                        5.0 ± 0.1",
        long.strip(),
        "next",
    ]


ESCAPES = "\x1b]0;owned\x07\x1b[2J[red]loud[/red]\u202eflip:smile:"


@pytest.mark.parametrize("how", ["print", "table", "styled"])
def test_text_of_others_is_neither_markup_nor_orders_to_the_terminal(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    console = output.PlainConsole(file=stream, force_terminal=True, width=200)
    monkeypatch.setattr(output, "out", console)
    if how == "table":
        print_table("", ["device"], [[f"{ESCAPES}\nforged line"]])
    else:
        console.print(ESCAPES, style="red" if how == "styled" else None)
    said = stream.getvalue()
    assert "[red]loud[/red]" in said
    assert ":smile:" in said
    for bad in ("\x1b]", "\x07", "\x1b[2J", "\u202e"):
        assert bad not in said
    assert ("\x1b[31m" in said) is (how == "styled")  # our own colours stay
    assert "\nforged" not in said
