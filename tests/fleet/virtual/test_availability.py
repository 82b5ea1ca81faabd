"""When devices are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError, DataError
from fleet.virtual.availability import Availability, read_trace

#: a is there from 10 to 20 and from 40 to 50 of every 100 seconds, b from 0 to 100, others always
WINDOWS = Availability(windows={"a": [(10, 20), (40, 50)], "b": [(0, 100)]})


@pytest.mark.parametrize(
    ("now", "then"), [(0, 10), (10, 10), (19, 19), (20, 40), (45, 45), (50, 110), (99, 110), (110, 110), (220, 240)]
)
def test_the_next_window_is_found_and_repeats(now: float, then: float) -> None:
    assert WINDOWS.next("a", now) == then
    assert WINDOWS.there("a", 1, now) == (now == then)


@pytest.mark.parametrize(
    ("start", "busy", "end"),
    [(10, 5, 15), (0, 5, 15), (10, 10, 20), (10, 12, 42), (15, 5, 20), (15, 20, 115), (10, 20, 50), (45, 47, 312)],
)
def test_work_goes_on_only_while_the_device_is_there(start: float, busy: float, end: float) -> None:
    assert WINDOWS.finish("a", start, busy) == end


def test_without_windows_a_device_is_always_there() -> None:
    assert WINDOWS.next("c", 33) == 33
    assert WINDOWS.finish("c", 33, 1e6) == 1e6 + 33
    assert WINDOWS.finish("b", 50, 75) == 125


def test_chance_is_drawn_by_seed_round_and_device() -> None:
    often = Availability(share=0.8, dropout=0.25, seed=3)
    rounds = range(1, 2001)
    there = [often.there("a", n, 0.0) for n in rounds]
    assert sum(there) == pytest.approx(1600, abs=60)
    assert there == [often.there("a", n, 0.0) for n in rounds]
    assert there != [often.there("b", n, 0.0) for n in rounds]
    assert sum(often.drops("a", n) for n in rounds) == pytest.approx(500, abs=60)
    assert not any(Availability().drops("a", n) for n in rounds)


def test_a_trace_is_read_and_sorted(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("device,from,to\nb,5,6.5\na,20,30\n\na,0,20\n")
    assert read_trace(path) == {"b": [(5.0, 6.5)], "a": [(0.0, 20.0), (20.0, 30.0)]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the first line must be device,from,to"),
        ("a,0,1\n", "the first line must be"),
        ("device,from,to\n", "no window"),
        ("device,from,to\na,5,5\n", "line 2: expected device,from,to"),
        ("device,from,to\na,0,1\na,1\n", "line 3: expected"),
        ("device,from,to\na,0,inf\n", "line 2: expected"),
        ("device,from,to\na,0,1,2\n", "line 2: expected"),
        ("device,from,to\na,0,9\na,8,10\n", "windows of a overlap at 8 s"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=said):
        read_trace(path)


def test_a_missing_trace_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no\\.csv"):
        read_trace(tmp_path / "no.csv")


@pytest.mark.parametrize("wrong", [{"share": 0.0}, {"share": 1.1}, {"dropout": 1.0}, {"dropout": -0.1}])
def test_shares_have_limits(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="give a number"):
        Availability(**wrong)  # type: ignore[arg-type]
