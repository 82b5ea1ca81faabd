"""Displays: what a terminal shows, what is said elsewhere, and silence."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from edgestill.cli.progress import RoundDisplay
from fleet.results.run_file import PrototypeResult, RoundResult
from tests.edgestill.cli.displays import shown

DEVICES = {f"sim-{n}": {"weight": 0.25, "score": 0.4 if n < 3 else 0.015, "screened": None} for n in range(4)}
FLEET = [{"device": name, "prototype": "cnn:w1"} for name in DEVICES]


def result(number: int, accuracy: float, ensemble: float | None = None) -> RoundResult:
    scores = PrototypeResult(
        accuracy=accuracy,
        loss=1.0,
        train_loss=1.0,
        devices=4,
        bytes_up=12_000,
        bytes_down=640_000,
        accuracy_float=accuracy + 0.1,
        ensemble_accuracy=ensemble,
    )
    return RoundResult(round=number, prototypes={"cnn:w1": scores}, seconds=1.5, devices=DEVICES)


def test_busy_devices_are_those_that_can_train_and_have_not_answered() -> None:
    show = RoundDisplay(5, 4, quiet=True, at_once=2)
    assert "round 1/5" in shown(show)
    assert "0 of 4 devices answered, 2 busy" in shown(show)
    for device in ("sim-0", "sim-1", "sim-2"):
        show.device_done(device)
    assert "3 of 4 devices answered, 1 busy" in shown(show)
    show.device_done("sim-3")
    assert "all 4 devices answered, fusing" in shown(show)


def test_the_picture_has_accuracies_changes_traffic_and_suspects() -> None:
    show = RoundDisplay(5, 4, quiet=True, fleet=FLEET)
    show.round_done(result(1, 0.5))
    show.round_done(result(2, 0.625, ensemble=0.75))
    rows = [line.split() for line in shown(show).splitlines()]
    assert rows[0][:2] == ["round", "3/5"]
    assert ["cnn:w1", "62.5", "%", "+12.5", "72.5", "%", "62.5", "%"] in rows
    assert ["ensemble", "75.0", "%"] in rows
    assert "0.02 MB up, 1.28 MB down so far" in shown(show)
    assert "suspicious: sim-3 (score 0.015)" in shown(show)


@pytest.mark.parametrize("width", [30, 50, 80, 200])
def test_no_line_is_wrapped_on_a_narrow_terminal(width: int) -> None:
    show = RoundDisplay(500, 400, quiet=True, at_once=2, fleet=FLEET)
    show.round_done(result(100, 0.8, ensemble=0.9))
    show.device_done("sim-0")
    lines = shown(show, width).splitlines()
    assert len(lines) == 6  # the bar, a head, a prototype, the ensemble, traffic, suspects
    assert all(len(line) <= width for line in lines)
    assert lines[0].startswith("round")
    assert ("1 of 400 devices answered, 2 busy" in lines[0]) is (width >= 80)
    assert ("80.0 %" in lines[2]) is (width >= 50)


def test_elsewhere_a_round_is_one_line(said: io.StringIO) -> None:
    with RoundDisplay(2, 4, quiet=False, fleet=FLEET) as show:
        show.round_done(result(1, 0.5))
        show.round_done(result(2, 0.625))
    first, last = said.getvalue().splitlines()
    assert first.startswith("round 1/2  cnn:w1 50.0%  12 kB up  640 kB down  1.5 s  ")
    assert first.endswith(" s left  suspicious: sim-3 (score 0.015)")
    assert last == "round 2/2  cnn:w1 62.5%  12 kB up  640 kB down  1.5 s  suspicious: sim-3 (score 0.015)"


def test_quiet_says_nothing(said: io.StringIO) -> None:
    with RoundDisplay(2, 4, quiet=True) as show:
        show.device_done("sim-0")
        show.round_done(result(1, 0.5))
    assert said.getvalue() == ""


def test_a_terminal_is_drawn_to_and_left_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("edgestill.cli.display.err", Console(file=stream, force_terminal=True, width=100))
    with RoundDisplay(2, 4, quiet=False) as show:
        show.round_done(result(1, 0.5))
    assert "50.0 %" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[1A\x1b[2K"), "the last thing is that its lines are removed"


def test_the_time_left_follows_the_share_that_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    show = RoundDisplay(4, 1, quiet=True)
    monkeypatch.setattr("edgestill.cli.display.time.monotonic", lambda: show.started + 100)
    show.round_done(result(1, 0.5))
    assert "5 min left" in shown(show)  # a quarter took 100 s
    show.round_done(result(2, 0.5))
    assert "100 s left" in shown(show)


def test_a_resumed_run_counts_its_own_rounds_only(monkeypatch: pytest.MonkeyPatch) -> None:
    show = RoundDisplay(10, 1, quiet=True)
    monkeypatch.setattr("edgestill.cli.display.time.monotonic", lambda: show.started + 10)
    show.round_done(result(9, 0.5))
    assert "10 s left" in shown(show)  # one of the last two


def test_lost_devices_are_named_in_the_picture_and_in_lines(said: io.StringIO) -> None:
    lost = {f"sim-{n}": "training diverged" for n in range(4, 10)}
    with RoundDisplay(2, 10, quiet=False) as show:
        show.round_done(replace(result(1, 0.5), lost=lost))
        text = "6 of 10 devices lost: sim-4, sim-5, sim-6, sim-7 and 2 more: training diverged"
        assert text in shown(show)
        show.round_done(result(2, 0.6))
        assert "lost" not in shown(show)
    first, second = said.getvalue().splitlines()
    assert text in first
    assert "lost" not in second
