"""What operators did on the page: one JSON object a line in state/audit.jsonl, appended and synced.

{"time": 1760000000.0, "who": "127.0.0.1", "action": "revoke", "on": "pi-07", "answer": "revoked", "failed": false}
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from pathlib import Path
from typing import Any

__all__ = ["AuditLog"]

FILE = "audit.jsonl"
LONGEST = 500  # characters of a field


class AuditLog:
    """The log of a fleet."""

    def __init__(self, state: Path) -> None:
        self._path = state / FILE

    def write(self, who: str, action: str, on: str = "", *, answer: str = "", failed: bool = False) -> None:
        """Append an entry; durable on return."""
        entry = {"time": time.time(), "who": who, "action": action, "on": on[:LONGEST], "answer": answer[:LONGEST]}
        line = json.dumps({**entry, "failed": failed}) + "\n"
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode())
            os.fsync(file)
        finally:
            os.close(file)

    def newest(self, count: int = 200) -> list[dict[str, Any]]:
        """The newest entries, newest first; a line that was cut by a crash is left out."""
        try:
            with self._path.open(encoding="utf-8", errors="replace") as file:
                lines = deque(file, count)
        except FileNotFoundError:
            return []
        return [entry for line in reversed(lines) if (entry := _entry(line)) is not None]


def _entry(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and {"time", "who", "action", "on", "answer"} <= found.keys() else None
