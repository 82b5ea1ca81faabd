"""Sends a command to the service from another process: writes it to the journal and waits for the answer there."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

from aggregator.config.fleet import FleetConfig
from aggregator.status import is_running
from aggregator.storage.journal import Journal
from core.errors import RoundError, StorageError

__all__ = ["ask_service"]

ANSWER_S = 5.0  # for the service to notice a command
LOOK_S = 0.05


def ask_service(config: FleetConfig, verb: str, argument: str = "", *, wait_s: float = ANSWER_S) -> str:
    """Write a command to the journal and wait for its answer; returns the text for the user."""
    path = config.state / "journal.db"
    if not path.is_file():
        Journal(path, read_only=True)  # raises, with a remedy, if there is none
    with closing(Journal(path)) as journal:
        try:
            number = journal.ask(verb, argument)
        except sqlite3.Error as error:
            raise StorageError(f"{path}: {error}; try again") from error
        if not is_running(config.state):
            return f"the aggregator is not running: it will {verb} when it starts"
        until = time.monotonic() + wait_s
        while time.monotonic() < until:
            answer = journal.answer_of(number)
            if answer is not None and answer.failed:
                raise RoundError(answer.text)
            if answer is not None:
                return answer.text
            time.sleep(LOOK_S)
    return f"asked to {verb}; the aggregator is busy and does it next"
