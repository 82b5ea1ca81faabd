"""Telemetry of a Linux board."""

from __future__ import annotations

from pathlib import Path

__all__ = ["temperature_c"]

THERMAL = Path("/sys/class/thermal/thermal_zone0/temp")


def temperature_c(path: Path = THERMAL) -> float | None:
    """Processor temperature in degrees Celsius; None if the board does not report it."""
    try:
        return int(path.read_text()) / 1000
    except (OSError, ValueError):
        return None
