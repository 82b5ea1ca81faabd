"""What displays share: a picture that is removed, lines, silence, and the time left."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType

from edgestill.cli import output
from edgestill.cli.display import Display, crop


class Counting(Display):
    """Shows how often it was asked to."""

    asked = 0

    def picture(self) -> list[RenderableType]:
        self.asked += 1
        return ["a picture", crop("x" * 300)]


def use(show: Display) -> None:
    with show:
        show.line("a [bold]line[/bold]")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What is said where there is no terminal."""
    stream = io.StringIO()
    monkeypatch.setattr(output.err, "_file", stream)  # `file` would be put back as the stream that it was then
    return stream


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    stream = io.StringIO()
    monkeypatch.setattr("edgestill.cli.display.err", Console(file=stream, force_terminal=True, width=40))
    return stream


def test_elsewhere_lines_are_said_as_they_are_and_no_picture_is_made(said: io.StringIO) -> None:
    show = Counting(quiet=False)
    use(show)
    assert (said.getvalue(), show.asked) == ("a [bold]line[/bold]\n", 0)


def test_a_terminal_is_drawn_to_and_left_clean_by_an_exception_too(terminal: io.StringIO) -> None:
    class Broken(Counting):
        def line(self, text: str) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        use(Broken(quiet=False))
    assert "a picture" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[1A\x1b[2K"), "the last thing is that its lines are removed"


def test_a_terminal_has_no_lines_and_a_long_one_of_the_picture_is_cut(terminal: io.StringIO) -> None:
    use(Counting(quiet=False))
    assert "a [bold]line" not in terminal.getvalue()
    assert "x" * 39 + "…" in terminal.getvalue()
    assert "x" * 40 not in terminal.getvalue()


def test_quiet_says_nothing_on_a_terminal_and_elsewhere(said: io.StringIO, terminal: io.StringIO) -> None:
    show = Counting(quiet=True)
    use(show)
    assert (said.getvalue(), terminal.getvalue(), show.asked) == ("", "", 0)


@pytest.mark.parametrize(
    ("done", "left"),
    [(0.0, ""), (0.5, "60 s left"), (0.25, "3 min left"), (0.33, "2 min left"), (1.0, ""), (1.5, "")],
)
def test_the_time_left_is_guessed_from_the_share_that_is_done(
    monkeypatch: pytest.MonkeyPatch, done: float, left: str
) -> None:
    show = Counting(quiet=True)
    monkeypatch.setattr("edgestill.cli.display.time.monotonic", lambda: show.started + 60)
    assert show.left(done) == left
