"""The newest lines of a log: bounded in number, length and bytes."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from core.logs import setup_logging
from core.newest_lines import LONGEST, MOST_BYTES, NewestLines

pytestmark = pytest.mark.light
LOG = logging.getLogger("edgestill.agent")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger("edgestill")
    handlers, level, propagate = root.handlers, root.level, root.propagate
    yield
    root.handlers, root.propagate = handlers, propagate
    root.setLevel(level)


@pytest.fixture
def lines() -> Iterator[NewestLines]:
    setup_logging(stream=io.StringIO())
    kept = NewestLines(3)
    kept.attach()
    yield kept
    kept.detach()


def test_the_newest_are_kept_oldest_first(lines: NewestLines) -> None:
    for number in range(5):
        LOG.info("line %d", number)
    assert [line.partition(" INFO    agent: ")[2] for line in lines.newest(200)] == ["line 2", "line 3", "line 4"]
    assert [line[-6:] for line in lines.newest(1)] == ["line 4"]


def test_a_line_is_one_line_and_bounded_and_has_its_error(lines: NewestLines) -> None:
    LOG.info("a\nforged \x1b[1m line")
    LOG.info("x" * 1000)
    try:
        raise ValueError("why")
    except ValueError:
        LOG.exception("failed")
    first, second, third = lines.newest(3)
    assert first.endswith("a | forged ?[1m line")
    assert len(second) == LONGEST
    assert third.endswith("failed: ValueError: why")


def test_what_is_handed_out_is_bounded_in_bytes(lines: NewestLines) -> None:
    many = NewestLines(200)
    for _ in range(200):
        many.emit(logging.LogRecord("edgestill.agent", logging.INFO, "", 0, "\U0001f980" * 1000, (), None))
    handed = many.newest(200)
    assert 0 < len(handed) < 200
    assert sum(len(line.encode()) for line in handed) <= MOST_BYTES


def test_it_stays_when_the_format_changes_and_goes_when_it_is_detached(lines: NewestLines) -> None:
    setup_logging("json", stream=io.StringIO())
    LOG.info("still kept")
    lines.detach()
    LOG.info("not kept")
    assert [line[-10:] for line in lines.newest(9)] == ["still kept"]


def test_none_are_kept_if_none_may_leave_the_board() -> None:
    setup_logging(stream=io.StringIO())
    none = NewestLines(0)
    none.attach()
    LOG.info("private")
    assert none.newest(9) == ()
    assert none not in logging.getLogger("edgestill").handlers
