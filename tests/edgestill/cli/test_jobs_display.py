"""Processes side by side: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import io

import pytest

from edgestill.cli.jobs_display import JobsDisplay
from fleet.jobs import Progress
from tests.edgestill.cli.displays import shown


def test_jobs_are_a_bar_and_a_line_each() -> None:
    show = JobsDisplay(3, quiet=True)
    assert shown(show).strip() == ""
    show(Progress(total=3, done=1, running={"alpha=0.1": "round 2/9 " + "x" * 200, "alpha=1.0": ""}))
    lines = shown(show).splitlines()
    assert "1/3" in lines[0]
    assert lines[1].startswith("  alpha=0.1: round 2/9 xxx")
    assert lines[1].endswith("…")
    assert lines[2].strip() == "alpha=1.0: starts"


def test_elsewhere_a_job_that_ends_is_one_line(said: io.StringIO) -> None:
    with JobsDisplay(2, quiet=False) as show:
        show(Progress(total=2, done=1, running={"b": ""}, ended=("a", 12.4, False)))
        show(Progress(total=2, done=2, running={}, ended=("b", 2.0, True)))
    first, last = said.getvalue().splitlines()
    assert first.startswith("1/2  a done in 12 s  about ")
    assert last == "2/2  b failed in 2 s"


def test_where_nothing_ends_for_a_minute_it_is_said_what_runs(
    said: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    with JobsDisplay(2, quiet=False) as show:
        running = Progress(total=2, done=0, running={"a": "round 2/9", "b": ""})
        begun = show.spoke
        for seconds in (59, 61, 100, 122):
            monkeypatch.setattr("edgestill.cli.jobs_display.time.monotonic", lambda now=begun + seconds: now)
            show(running)
    assert said.getvalue().splitlines() == ["0/2  a: round 2/9; b: starts"] * 2, "after 61 s, and 61 s after that"


def test_without_runs_nothing_is_said(said: io.StringIO) -> None:
    with JobsDisplay(0, quiet=False) as show:
        show(Progress(total=0, done=0, running={}, ended=("a", 1.0, False)))
    assert said.getvalue() == ""
