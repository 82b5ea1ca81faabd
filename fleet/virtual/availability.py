"""When devices are available: always, at random, or by a trace file.

A trace is a CSV file with a header and one window per line, in virtual seconds. A device may have any number of
windows; a device without any is always available. The trace repeats after the last end of all windows.

    device,from,to
    sim-0,0,3600
    sim-0,7200,9000
    sim-1,1800,86400

A device works only while it is available: work interrupted by the end of a window continues in the next.
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
    """Availability of all devices."""

    windows: Mapping[str, Sequence[Window]] = field(default_factory=dict)  # sorted, disjoint
    share: float = 1.0  # probability that a device is available, drawn per round
    dropout: float = 0.0  # probability that it starts a round and never finishes it
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigError(f"availability {self.share}; give a number above 0 and at most 1")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"drop-out {self.dropout}; give a number from 0 to below 1")

    @property
    def period(self) -> float:
        """The period after which windows repeat."""
        return max((end for windows in self.windows.values() for _, end in windows), default=math.inf)

    def there(self, device: str, round_number: int, now: float) -> bool:
        """Whether the device is available for round `round_number`, which begins at `now`."""
        if _drawn(self.seed, "there", round_number, device) >= self.share:
            return False
        return self.next(device, now) == now

    def drops(self, device: str, round_number: int) -> bool:
        """Whether it starts round `round_number` and drops out."""
        return _drawn(self.seed, "drop", round_number, device) < self.dropout

    def next(self, device: str, now: float) -> float:
        """The first time from `now` on at which it is available."""
        own = self.windows.get(device)
        if not own:
            return now
        base, offset = self._wrapped(now)
        start_at = next((max(start, offset) for start, end in own if offset < end), None)
        return base + (self.period + own[0][0] if start_at is None else start_at)

    def finish(self, device: str, start: float, busy: float) -> float:
        """The time at which it has been available for `busy` seconds since `start`."""
        own = self.windows.get(device)
        if not own:
            return start + busy
        online = sum(end - begin for begin, end in own)
        whole = max(math.ceil(busy / online) - 1, 0)  # whole periods, which do not change the offset
        now, left = start + self.period * whole, busy - whole * online
        while True:
            now = self.next(device, now)
            _, offset = self._wrapped(now)
            room = next(end for begin, end in own if begin <= offset < end) - offset
            if left <= room:
                return now + left
            now, left = now + room, left - room

    def _wrapped(self, now: float) -> tuple[float, float]:
        """The start of the current period, and the offset of `now` in it."""
        count = math.floor(now / self.period)
        return count * self.period, now - count * self.period


def _drawn(seed: int, *purpose: object) -> float:
    """A random number in [0, 1)."""
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
    for line_number, row in enumerate(rows[1:], start=2):
        if row:
            device, window = _window(path, line_number, row)
            windows.setdefault(device, []).append(window)
    for device, own in windows.items():
        own.sort()
        for (_, end), (start, _) in itertools.pairwise(own):
            if start < end:
                raise DataError(f"{path}: windows of {device} overlap at {start:g} s; give each second once")
    if not windows:
        raise DataError(f"{path}: no window; give at least one line below the header")
    return windows


def _window(path: Path, line_number: int, row: Sequence[str]) -> tuple[str, Window]:
    try:
        device, start, end = row[0].strip(), float(row[1]), float(row[2])
        sound = len(row) == len(HEADER) and bool(device) and 0 <= start < end < math.inf
    except (IndexError, ValueError):
        sound = False
    if not sound:
        raise DataError(f"{path}, line {line_number}: expected device,from,to in seconds with 0 <= from < to")
    return device, (start, end)
