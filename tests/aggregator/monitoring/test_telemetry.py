"""The newest telemetry of devices, in a file for who looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.monitoring.telemetry import FRESH_S, TelemetryFile, read_telemetry
from wire.board_reports import Telemetry

pytestmark = pytest.mark.light


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_what_is_heard_is_written_and_read_by_another_process_and_the_next(tmp_path: Path, clock: Clock) -> None:
    file = TelemetryFile(tmp_path, clock)
    file.heard("pi-1", Telemetry(round=3, stage="training", done=30, total=120, throttled=True))
    file.keep()
    expected = {"time": 1000.0, "round": 3, "stage": "training", "done": 30, "total": 120, "throttled": True}
    assert read_telemetry(tmp_path, clock.now) == {"pi-1": expected}
    assert TelemetryFile(tmp_path, clock).newest == {"pi-1": expected}
    assert read_telemetry(tmp_path, clock.now + FRESH_S + 1) == {}


def test_the_file_is_written_seldom_and_only_if_something_changed(tmp_path: Path, clock: Clock) -> None:
    file = TelemetryFile(tmp_path, clock)
    path = tmp_path / "telemetry.json"
    file.keep(at_once=True)
    assert not path.exists()
    for number in range(1000):
        file.heard(f"pi-{number}", Telemetry())
    file.keep()
    written = path.stat().st_mtime_ns
    file.heard("pi-1", Telemetry(stage="fetching"))
    clock.now += 2.9
    file.keep()
    assert path.stat().st_mtime_ns == written
    clock.now += 0.2
    file.keep()
    assert read_telemetry(tmp_path, clock.now)["pi-1"]["stage"] == "fetching"


@pytest.mark.parametrize("text", ["", "[1]", '{"pi-1": 5, "pi-2": {}}', "\x00"])
def test_a_damaged_file_is_empty(tmp_path: Path, text: str, clock: Clock) -> None:
    (tmp_path / "telemetry.json").write_text(text)
    assert read_telemetry(tmp_path, clock.now) == {}
