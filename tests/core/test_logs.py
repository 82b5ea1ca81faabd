"""Logs: one line per record, whatever is in it."""

import ast
import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import ConfigError
from core.logs import FIELDS, setup_logging

pytestmark = pytest.mark.light
LOG = logging.getLogger("edgestill.agent")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger("edgestill")
    handlers, level, propagate = root.handlers, root.level, root.propagate
    yield
    root.handlers, root.propagate = handlers, propagate
    root.setLevel(level)


def logged(format: str = "line", level: str = "info", environ: dict[str, str] | None = None) -> io.StringIO:  # noqa: A002
    stream = io.StringIO()
    setup_logging(format, level, stream=stream, environ=environ or {})
    return stream


def test_a_line_has_time_level_and_the_short_name() -> None:
    stream = logged()
    LOG.warning("round %d", 3)
    assert re.fullmatch(r"\d\d:\d\d:\d\d WARNING agent: round 3\n", stream.getvalue())


def test_the_journal_stamps_lines_itself() -> None:
    stream = logged(environ={"JOURNAL_STREAM": "8:1"})
    LOG.info("hello")
    assert stream.getvalue() == "INFO    agent: hello\n"


def test_json_has_the_same_facts() -> None:
    stream = logged("json")
    LOG.info("two\nlines")
    facts = json.loads(stream.getvalue())
    assert stream.getvalue().count("\n") == 1
    assert facts.pop("time").endswith("+00:00")
    assert facts == {"level": "info", "logger": "edgestill.agent", "message": "two\nlines"}


def test_json_says_what_a_line_is_about_by_the_same_names_everywhere() -> None:
    stream = io.StringIO()
    setup_logging("json", stream=stream, environ={}, fleet="garden")
    LOG.info("round %d: %r", 3, "pi-07", extra={"round": 3, "device": "pi-07"})
    LOG.info("nothing more", extra={"round": None, "other": 1})
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert {name: first.get(name) for name in FIELDS} == {"fleet": "garden", "device": "pi-07", "round": 3}
    assert second.keys() == {"time", "level", "logger", "message", "fleet"}


def test_every_line_about_a_device_or_a_round_has_its_field() -> None:
    """The templates of the aggregator that name one, against what `extra` of the same call has."""
    lacks = []
    for path in sorted((Path(__file__).resolve().parents[2] / "aggregator").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(call, ast.Call) and ast.unparse(call.func).startswith("log.") and call.args):
                continue
            template = next((arg.value for arg in call.args if isinstance(arg, ast.Constant)), "")
            extra = next((ast.unparse(word.value) for word in call.keywords if word.arg == "extra"), "")
            named = {"round": "round %d" in template, "device": bool(re.search(r"(device|from|without) %r", template))}
            lacks += [f"{path.name}:{call.lineno} {name}" for name, true in named.items() if true and name not in extra]
    assert lacks == []


@pytest.mark.parametrize("format", ["line", "json"])
def test_a_record_stays_on_one_line_even_with_a_traceback_or_text_from_outside(format: str) -> None:  # noqa: A002
    stream = logged(format)
    try:
        raise ValueError("boom")
    except ValueError:
        LOG.exception("from %s", "pi\x1b[31m\r\n12:00:00 INFO agent: forged")
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert len(text.splitlines()) == 1
    assert "\x1b" not in text
    assert "ValueError: boom" in text


def test_levels_below_the_asked_one_are_dropped() -> None:
    stream = logged(level="warning")
    LOG.info("no")
    LOG.error("yes")
    assert stream.getvalue().endswith("yes\n")
    assert "no" not in stream.getvalue()


def test_a_second_setup_replaces_the_first() -> None:
    first, second = logged(), logged()
    LOG.info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


@pytest.mark.parametrize(("format", "level"), [("jsn", "info"), ("line", "warn")])
def test_unknown_words_are_refused_with_a_suggestion(format: str, level: str) -> None:  # noqa: A002
    with pytest.raises(ConfigError, match="did you mean"):
        setup_logging(format, level)
