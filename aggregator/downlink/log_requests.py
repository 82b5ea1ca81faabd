"""The newest lines of a device's log, asked for by the operator.

    state/logs/{device}.json    {"number": 1760000000123, "time": 1760000000.4, "withheld": false, "lines": [...]}

A request is not retained: a device that is not connected does not get it. An answer to no request of this process, or
to an older one, is ignored.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from aggregator.downlink.signed import Publish, SignedMessages
from aggregator.storage.journal import Journal
from aggregator.storage.rows import Command
from core.errors import EdgestillError
from core.files import write_atomic
from wire.board_reports import LOG_LINES, Ask, LogTail
from wire.keys import Ed25519PrivateKey

__all__ = ["LOG", "TAILS", "LogRequests", "log_request", "read_tail"]

log = logging.getLogger("edgestill.aggregator")
LOG = "log"  # the verb of the command
TAILS = "logs"  # the folder


def log_request(device: str, lines: int = LOG_LINES) -> str:
    """The argument of the command that asks a device for the newest lines of its log."""
    return json.dumps({"device": device, "lines": lines})


def read_tail(state: Path, device: str) -> dict[str, Any] | None:
    """The last answer of a device, or None."""
    try:
        found = json.loads((state / TAILS / f"{device}.json").read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and {"number", "time", "withheld", "lines"} <= found.keys() else None


class LogRequests(SignedMessages):
    """Publishes requests, and keeps the newest answer of each device in `folder`."""

    def __init__(self, publish: Publish, *, folder: Path, key: Ed25519PrivateKey, fleet: str, journal: Journal) -> None:
        super().__init__(publish, key=key, fleet=fleet, journal=journal)
        self._folder = folder
        self._asked: dict[str, int] = {}

    def run(self, command: Command, now: float) -> None:
        """Ask a device; answers with the number that its answer will have."""
        text, failed = self._ask(command, now)
        with self._journal.transaction():
            self._journal.answer(command.id, text, failed=failed)

    def _ask(self, command: Command, now: float) -> tuple[str, bool]:
        try:
            wanted = json.loads(command.argument)
            device = wanted["device"]
            number = max(int(now * 1000), self._asked.get(device, 0) + 1)
            sent = self._send(device, "ask", Ask(device=device, number=number, lines=wanted["lines"]), retain=False)
        except EdgestillError as error:
            return str(error), True
        if not sent:
            return "no connection to the broker; ask again later", True
        self._asked[device] = number
        log.info("device %r is asked for its log", device, extra={"device": device})
        return str(number), False

    def heard(self, device: str, tail: LogTail, now: float) -> None:
        """A device answers."""
        if tail.number != self._asked.get(device):
            return
        facts = {"number": tail.number, "time": now, "withheld": tail.withheld, "lines": list(tail.lines)}
        self._folder.mkdir(exist_ok=True)
        write_atomic(self._folder / f"{device}.json", json.dumps(facts), mode=0o600)
