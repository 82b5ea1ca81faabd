"""What a Linux board tells of itself."""

from __future__ import annotations

from pathlib import Path

__all__ = ["temperature_c"]

THERMAL = Path("/sys/class/thermal/thermal_zone0/temp")


def temperature_c(path: Path = THERMAL) -> float | None:
    """Of the processor in degrees Celsius; None where the board does not tell."""
    try:
        return int(path.read_text()) / 1000
    except (OSError, ValueError):
        return None
