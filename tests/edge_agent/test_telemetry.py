"""When a device reports its work and its board."""

from __future__ import annotations

import pytest

from edge_agent.host.telemetry import BoardState
from edge_agent.protocol.progress import Progress
from edge_agent.telemetry import IDLE_S, LEAST_S, TelemetryReports

pytestmark = pytest.mark.light
IDLE, TRAINING = Progress(), Progress(round=3, stage="training", done=30, total=120)


@pytest.fixture
def reports() -> TelemetryReports:
    return TelemetryReports(10.0, lambda: BoardState(temperature_c=61.5, throttled=True))


def times(reports: TelemetryReports, progress: Progress, seconds: range) -> list[int]:
    return [now for now in seconds if reports.poll(progress, float(now)) is not None]


def test_a_report_has_the_work_and_the_board(reports: TelemetryReports) -> None:
    sent = reports.poll(TRAINING, 5.0)
    assert sent is not None
    assert (sent.round, sent.stage, sent.done, sent.total) == (3, "training", 30, 120)
    assert (sent.temperature_c, sent.throttled, sent.undervoltage) == (61.5, True, None)


def test_work_is_reported_at_every_change_and_then_every_few_seconds(reports: TelemetryReports) -> None:
    assert times(reports, IDLE, range(3)) == [0]
    assert times(reports, TRAINING, range(3, 30)) == [3, 13, 23]
    assert reports.due == 33.0


def test_an_idle_board_reports_seldom(reports: TelemetryReports) -> None:
    assert times(reports, IDLE, range(700)) == [0, int(IDLE_S), int(2 * IDLE_S)]


def test_quick_changes_are_reported_once_a_second(reports: TelemetryReports) -> None:
    assert reports.poll(IDLE, 0.0) is not None
    assert reports.poll(TRAINING, 0.5) is None
    assert reports.due == LEAST_S
    assert reports.poll(TRAINING, 1.0) is not None


def test_a_new_connection_hears_it_again(reports: TelemetryReports) -> None:
    reports.poll(IDLE, 0.0)
    reports.again()
    assert reports.poll(IDLE, 2.0) is not None


def test_none_is_sent_if_the_board_is_told_so() -> None:
    silent = TelemetryReports(0.0, BoardState)
    assert times(silent, TRAINING, range(100)) == []
    assert silent.due == float("inf")
