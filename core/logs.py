"""Logs of the services: to stderr, one line per record, for people or as JSON. Only the standard library.

    12:07:31 INFO    transport: connected to 127.0.0.1:1883 (MQTT 5)
    {"time": "2025-03-01T12:07:31.204+00:00", "level": "info", "logger": "edgestill.transport", "message": "...",
     "fleet": "garden", "device": "pi-07", "round": 12}

In JSON a line has the names of `FIELDS` that it is about: those of the process, given to `setup_logging`, and those of
the record, `log.info(..., extra={"device": "pi-07", "round": 12})`.

The services log as `edgestill.agent`, `edgestill.aggregator` and `edgestill.transport`. Under systemd, which adds
timestamps itself, the line form omits the time.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Literal, TextIO, get_args

from core.errors import ConfigError, did_you_mean
from core.newest_lines import ROOT, NewestLines, one_line
from core.settings import Settings

__all__ = ["FIELDS", "LogConfig", "setup_logging"]

#: What a line may be about: the same names in every log.
FIELDS = ("fleet", "device", "round")

Format = Literal["line", "json"]
Level = Literal["debug", "info", "warning", "error"]


class LogConfig(Settings, frozen=True, kw_only=True):
    """The table [log]: how an agent or the aggregator logs."""

    format: Format = "line"
    level: Level = "info"


def setup_logging(
    format: str = "line",  # noqa: A002
    level: str = "info",
    *,
    stream: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
    **about: str,
) -> None:
    """Send the records of all `edgestill.*` loggers to stderr; a second call replaces the first.

    `about` are fields of all lines of this process, if they are JSON.
    """
    _check("log format", format, get_args(Format))
    _check("log level", level, get_args(Level))
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Json(about) if format == "json" else _Line(stamp="JOURNAL_STREAM" not in environ))
    logger = logging.getLogger(ROOT)
    logger.handlers = [handler, *(kept for kept in logger.handlers if isinstance(kept, NewestLines))]
    logger.setLevel(level.upper())
    logger.propagate = False


def _check(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(f"{what} {value!r}{did_you_mean(value, known)}; known: {' '.join(known)}")


def _text(record: logging.LogRecord, formatter: logging.Formatter) -> str:
    """The message and the traceback, if any, as one string without line breaks at its ends."""
    text = record.getMessage()
    if record.exc_info:
        text = f"{text}\n{formatter.formatException(record.exc_info)}"
    return text.strip()


class _Line(logging.Formatter):
    def __init__(self, *, stamp: bool) -> None:
        super().__init__()
        self.stamp = stamp

    def format(self, record: logging.LogRecord) -> str:
        clock = f"{datetime.fromtimestamp(record.created):%H:%M:%S} " if self.stamp else ""
        name = record.name.removeprefix(f"{ROOT}.")
        line = f"{clock}{record.levelname:<7s} {name}: {_text(record, self)}"
        return one_line(line)  # a device cannot forge lines


class _Json(logging.Formatter):
    def __init__(self, about: Mapping[str, str]) -> None:
        super().__init__()
        self._about = about

    def format(self, record: logging.LogRecord) -> str:
        facts: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _text(record, self),
            **self._about,
        }
        for name in FIELDS:
            if (value := getattr(record, name, None)) is not None:
                facts[name] = value
        return json.dumps(facts)
