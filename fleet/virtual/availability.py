"""When devices are there: always, by chance, or as a trace file says.

A trace is a CSV file with a header and one window a line, in virtual seconds; a device has as many as it likes, and one
that has none is always there. It repeats after the last end of all.

    device,from,to
    sim-0,0,3600
    sim-0,7200,9000
    sim-1,1800,86400

Work goes on only while the device is there: what is cut off by the end of a window is continued in the next.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import ConfigError, DataError
from core.files import read_regular
from core.seeds import derive_seed

__all__ = ["Availability", "Window", "read_trace"]

HEADER = ["device", "from", "to"]
MAX_TRACE = 256 * 2**20
Window = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Of all devices."""

    windows: Mapping[str, Sequence[Window]] = field(default_factory=dict)  # sorted, apart from each other
    share: float = 1.0  # of the rounds that a device is there for, drawn anew in each
    dropout: float = 0.0  # of the rounds that it begins and never ends
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigError(f"availability {self.share}; give a number above 0 and at most 1")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"drop-out {self.dropout}; give a number from 0 to below 1")

    @property
    def period(self) -> float:
        """After which windows repeat."""
        return max((end for windows in self.windows.values() for _, end in windows), default=math.inf)

    def there(self, device: str, number: int, now: float) -> bool:
        """Whether the device can be asked in round `number`, which begins at `now`."""
        if _drawn(self.seed, "there", number, device) >= self.share:
            return False
        return self.next(device, now) == now

    def drops(self, device: str, number: int) -> bool:
        """Whether it begins round `number` and is not heard of again before the next."""
        return _drawn(self.seed, "drop", number, device) < self.dropout

    def next(self, device: str, now: float) -> float:
        """The first moment from `now` on at which it is there."""
        own = self.windows.get(device)
        if not own:
            return now
        base, offset = self._wrapped(now)
        found = next((max(start, offset) for start, end in own if offset < end), None)
        return base + (self.period + own[0][0] if found is None else found)

    def finish(self, device: str, start: float, busy: float) -> float:
        """When it has been there for `busy` seconds since `start`."""
        own = self.windows.get(device)
        if not own:
            return start + busy
        online = sum(end - begin for begin, end in own)
        whole = max(math.ceil(busy / online) - 1, 0)  # periods, which leave the offset as it is
        now, left = start + self.period * whole, busy - whole * online
        while True:
            now = self.next(device, now)
            _, offset = self._wrapped(now)
            room = next(end for begin, end in own if begin <= offset < end) - offset
            if left <= room:
                return now + left
            now, left = now + room, left - room

    def _wrapped(self, now: float) -> tuple[float, float]:
        """When the period that `now` is in began, and how far into it `now` is."""
        count = math.floor(now / self.period)
        return count * self.period, now - count * self.period


def _drawn(seed: int, *purpose: object) -> float:
    """A number in [0, 1)."""
    return derive_seed(seed, "availability", *purpose) / 2**63


def read_trace(path: Path) -> dict[str, list[Window]]:
    """The windows of a trace file, by device."""
    try:
        text = read_regular(path, MAX_TRACE).decode("utf-8")
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: not a readable trace ({why}); give a CSV file, see docs/virtual-time.md") from error
    if not rows or [cell.strip() for cell in rows[0]] != HEADER:
        raise DataError(f"{path}: the first line must be {','.join(HEADER)}")
    windows: dict[str, list[Window]] = {}
    for number, row in enumerate(rows[1:], start=2):
        if row:
            device, window = _window(path, number, row)
            windows.setdefault(device, []).append(window)
    for device, own in windows.items():
        own.sort()
        for (_, end), (start, _) in itertools.pairwise(own):
            if start < end:
                raise DataError(f"{path}: windows of {device} overlap at {start:g} s; give each second once")
    if not windows:
        raise DataError(f"{path}: no window; give at least one line below the header")
    return windows


def _window(path: Path, number: int, row: Sequence[str]) -> tuple[str, Window]:
    try:
        device, start, end = row[0].strip(), float(row[1]), float(row[2])
        sound = len(row) == len(HEADER) and bool(device) and 0 <= start < end < math.inf
    except (IndexError, ValueError):
        sound = False
    if not sound:
        raise DataError(f"{path}, line {number}: expected device,from,to in seconds with 0 <= from < to")
    return device, (start, end)
