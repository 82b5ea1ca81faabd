"""The newest telemetry of every device, in memory and in a file for the page and the command line.

    state/telemetry.json    {"pi-01": {"time": 1760000000.0, "stage": "training", "done": 30, "total": 120, ...}}

The file is replaced when something has changed, not synced, and the less often the larger the fleet.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from wire.board_reports import Telemetry

__all__ = ["FRESH_S", "TelemetryFile", "read_telemetry"]

FILE = "telemetry.json"
WRITE_S, PER_DEVICE_S = 1.0, 0.002  # between two writes: 3 s for a thousand devices
FRESH_S = 900.0  # older telemetry is not shown: an idle device reports every five minutes


class TelemetryFile:
    """Collects what devices report; `keep` writes it."""

    def __init__(self, state: Path, clock: Callable[[], float]) -> None:
        self._state, self._clock = state, clock
        self._heard = _read(state)
        self._changed = False
        self._kept = 0.0

    def heard(self, device: str, telemetry: Telemetry) -> None:
        """A device reports."""
        facts = {name: value for name, value in msgspec.structs.asdict(telemetry).items() if value is not None}
        self._heard[device] = {"time": self._clock(), **facts}
        self._changed = True

    @property
    def newest(self) -> Mapping[str, Mapping[str, Any]]:
        """By device."""
        return self._heard

    def keep(self, *, at_once: bool = False) -> None:
        """Write the file, if it is due."""
        now = self._clock()
        if not self._changed or (now - self._kept < WRITE_S + PER_DEVICE_S * len(self._heard) and not at_once):
            return
        beside = self._state / f".{FILE}"
        beside.write_text(json.dumps(self._heard))
        os.replace(beside, self._state / FILE)
        self._changed, self._kept = False, now


def read_telemetry(state: Path, now: float) -> dict[str, dict[str, Any]]:
    """The fresh telemetry of every device."""
    return {device: facts for device, facts in _read(state).items() if now - facts["time"] <= FRESH_S}


def _read(state: Path) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads((state / FILE).read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {device: facts for device, facts in found.items() if isinstance(facts, dict) and "time" in facts}
