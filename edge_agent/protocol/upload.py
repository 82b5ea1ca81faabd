"""The upload of one update, without I/O: which chunk to send, and when to probe.

        SLOW    no answer since the connection was made: at most 2 chunks in flight, because the aggregator may already
            have all of them, and two chunks always trigger an answer (a known one at once, every second new one)
    FAST    answered: at most 6 chunks in flight
    PROBING reconnected with chunks in flight: the last chunk sent is resent, along with the lowest. Chunks arrive in
            the order of sending, including those that the broker still held; so an answer that lacks this last chunk
            is outdated, and would cause chunks in flight to be sent twice: it is ignored
    any     no answer for 3 s: the lowest two in flight are resent, then after 6 s, 12 s, ... 60 s

`Missing` lists the chunks that the aggregator lacks; all others have arrived. Chunks arrive in the order of sending; so
a listed chunk in flight is lost if a later one has arrived, and otherwise still on its way. A late or duplicate
`Missing` at worst causes a chunk to be sent twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from edge_agent.protocol.events import SendChunk, Spooled
from wire.ranges import Ranges

__all__ = ["Upload"]

SLOW_WINDOW, WINDOW = 2, 6
ANSWER_S, MAX_ANSWER_S = 3.0, 60.0
MAX_RANGES = 1024  # of one `Missing`; more may follow


class Upload:
    """The device's side of one transfer."""

    def __init__(self, spooled: Spooled) -> None:
        self.spooled = spooled
        self._missing: Ranges = ((0, spooled.count),)
        self._out: list[int] = []  # in the order of sending
        self._probe: int | None = None
        self._heard = False
        self._wait = ANSWER_S
        self._due = 0.0

    def connected(self, now: float) -> list[SendChunk]:
        """Connected: the fate of chunks in flight is unknown, so probe at once."""
        self._out = self._out[-1:]
        self._probe = self._out[0] if self._out else None
        self._heard, self._wait = False, ANSWER_S
        again = [SendChunk(self.spooled.transfer, n) for n in self._out]
        return again + self._send(now)

    def missing(self, ranges: Ranges, now: float) -> list[SendChunk]:
        """The aggregator lacks these chunks."""
        if ranges[-1][1] > self.spooled.count:
            return []  # not about this content
        if len(ranges) >= MAX_RANGES and ranges[-1][1] < self.spooled.count:
            ranges = (*ranges, (ranges[-1][1], self.spooled.count))
        if self._probe is not None and any(start <= self._probe < stop for start, stop in ranges):
            return []
        self._missing, self._probe = ranges, None
        arrived = [i for i, n in enumerate(self._out) if not self._lacks(n)]
        self._out = [n for n in self._out[arrived[-1] + 1 if arrived else 0 :] if self._lacks(n)]
        self._heard, self._wait = True, ANSWER_S
        return self._send(now)

    def tick(self, now: float) -> list[SendChunk]:
        """Probe if the answer is overdue."""
        if now < self._due:
            return []
        self._wait = min(2 * self._wait, MAX_ANSWER_S)
        self._due = now + self._wait
        again = sorted(self._out)[:SLOW_WINDOW]
        self._out = [n for n in self._out if n not in again] + again
        return [SendChunk(self.spooled.transfer, n) for n in again]

    @property
    def left(self) -> int:
        """Number of chunks that the aggregator is not known to have."""
        return sum(stop - start for start, stop in self._missing)

    @property
    def due(self) -> float:
        """When to call `tick`."""
        return self._due

    def _send(self, now: float) -> list[SendChunk]:
        self._due = now + self._wait
        free = (WINDOW if self._heard else SLOW_WINDOW) - len(self._out)
        numbers = list(islice(self._waiting(), max(free, 0)))
        self._out += numbers
        return [SendChunk(self.spooled.transfer, n) for n in numbers]

    def _waiting(self) -> Iterator[int]:
        out = set(self._out)
        return (n for start, stop in self._missing for n in range(start, stop) if n not in out)

    def _lacks(self, n: int) -> bool:
        return any(start <= n < stop for start, stop in self._missing)
