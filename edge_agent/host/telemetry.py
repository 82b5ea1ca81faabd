"""Telemetry of a Linux board, from /sys and /proc; a value that the board does not offer is None.

throttled      Raspberry Pi: get_throttled, bits 1 frequency capped, 2 throttled, 3 soft temperature limit
               others: a cooling device of the processor that is in use
undervoltage   Raspberry Pi: bit 0; others: none says so
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BoardState", "board_state", "firmware_flags", "temperature_c"]

THERMAL = Path("/sys/class/thermal/thermal_zone0/temp")
FIRMWARE = "sys/devices/platform/soc/soc:firmware/get_throttled"
COOLERS = ("cpufreq", "thermal-cpufreq", "processor")  # types of cooling devices that slow the processor down
VCGENCMD_S = 2.0
UNDERVOLTAGE, SLOWED = 0x1, 0xE


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardState:
    """One reading."""

    temperature_c: float | None = None
    throttled: bool | None = None
    undervoltage: bool | None = None
    load: float | None = None
    processors: int | None = None
    memory_mb: float | None = None
    memory_total_mb: float | None = None
    disk_mb: float | None = None
    battery: float | None = None
    on_battery: bool | None = None


def board_state(folder: Path, root: Path = Path("/"), *, flags: Callable[[], int | None] | None = None) -> BoardState:
    """A reading of all; `folder` lies on the disk that matters, `root` is where /sys and /proc are."""
    bits = firmware_flags(root) if flags is None else flags()
    memory = _memory(root)
    battery, on_battery = _battery(root)
    return BoardState(
        temperature_c=temperature_c(root / THERMAL.relative_to("/")),
        throttled=_cooled(root) if bits is None else bool(bits & SLOWED),
        undervoltage=None if bits is None else bool(bits & UNDERVOLTAGE),
        load=_load(root),
        processors=os.cpu_count(),
        memory_mb=memory.get("MemAvailable"),
        memory_total_mb=memory.get("MemTotal"),
        disk_mb=_free(folder),
        battery=battery,
        on_battery=on_battery,
    )


def temperature_c(path: Path = THERMAL) -> float | None:
    """Processor temperature in degrees Celsius; None if the board does not report it, or its sensor is broken."""
    text = _text(path)
    try:
        degrees = int(text) / 1000
    except (ValueError, OverflowError):
        return None
    return degrees if -273.15 <= degrees <= 1000 else None  # the bounds of wire's Telemetry


def firmware_flags(root: Path = Path("/")) -> int | None:
    """get_throttled of a Raspberry Pi's firmware: from /sys, or from vcgencmd where the kernel has no such file."""
    text = _text(root / FIRMWARE)
    if not text and root == Path("/") and (command := shutil.which("vcgencmd")):
        with suppress(OSError, subprocess.SubprocessError):
            text = subprocess.run(
                [command, "get_throttled"], capture_output=True, text=True, timeout=VCGENCMD_S, check=False
            ).stdout
    found = re.fullmatch(r"(?:throttled=)?(?:0x)?([0-9a-fA-F]{1,8})", text.strip())
    return int(found[1], 16) if found else None


def _cooled(root: Path) -> bool | None:
    states = []
    for device in sorted(root.glob("sys/class/thermal/cooling_device*")):
        if _text(device / "type").lower().startswith(COOLERS):
            with suppress(ValueError):
                states.append(int(_text(device / "cur_state")) > 0)
    return any(states) if states else None


def _load(root: Path) -> float | None:
    try:
        return float(_text(root / "proc/loadavg").split()[0])
    except (ValueError, IndexError):
        return None


def _memory(root: Path) -> dict[str, float]:
    rows = (line.split() for line in _text(root / "proc/meminfo").splitlines())
    return {row[0][:-1]: int(row[1]) * 1024 / 1e6 for row in rows if len(row) == 3 and row[1].isdecimal()}


def _free(folder: Path) -> float | None:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize / 1e6


def _battery(root: Path) -> tuple[float | None, bool | None]:
    """Charge of the board's battery, and whether it is discharging; those of mice and the like are left out."""
    for supply in sorted(root.glob("sys/class/power_supply/*")):
        if _text(supply / "type") != "Battery" or _text(supply / "scope") == "Device":
            continue
        with suppress(ValueError):
            charge = min(max(int(_text(supply / "capacity")), 0), 100) / 100
            return charge, _text(supply / "status") == "Discharging"
    return None, None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
