"""Warnings in one line each, and so many a minute."""

import logging

import pytest

from edge_agent.faults import EVERY_S, LINES, Nonsense, tell_fault

pytestmark = pytest.mark.light


def test_nonsense_without_end_is_twenty_lines_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    nonsense = Nonsense(lambda: now)
    for n in range(1000):
        nonsense.warn(f"nonsense {n}")
    assert len(caplog.records) == 20
    now = 61.0
    nonsense.warn("again")
    assert [record.getMessage() for record in caplog.records[20:]] == ["980 more messages made no sense", "again"]


def test_a_quiet_minute_is_not_counted_out(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    nonsense = Nonsense(lambda: now)
    for _ in range(LINES):
        nonsense.warn("just as many as may be said")
    now = EVERY_S
    nonsense.warn("again")
    assert caplog.messages[LINES:] == ["again"]


def test_a_fault_of_ours_is_one_line_with_its_place_and_the_traceback_is_for_debugging(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "edgestill.agent")
    try:
        raise KeyError("shape")
    except KeyError as error:
        tell_fault("a message on t/job", error)
    line, detail = caplog.records
    assert line.levelno == logging.ERROR
    assert line.getMessage().startswith("a message on t/job: KeyError: 'shape' (test_faults.py:")
    assert line.exc_info is None
    assert (detail.levelno, detail.exc_info is not None) == (logging.DEBUG, True)
