"""Events from the network thread to the service, and the bounded inbox between the two.

The service takes events on its own thread; paho's callbacks only add them. When the inbox is full, the network thread
stops reading from its socket, so that TCP, and then the broker, apply backpressure.

Messages may be sorted into lanes, which are served round-robin; a lane that has used its share of the inbox drops
further messages. So a sender that floods delays only itself, and takes no room from others.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TypeAlias

__all__ = ["FRONT", "Connected", "Disconnected", "Event", "Inbox", "Received"]


@dataclass(frozen=True, slots=True)
class Connected:
    """Connected and subscribed: publish again what must be known."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection was lost or could not be made; reconnection is automatic."""

    reason: str


@dataclass(frozen=True, slots=True)
class Received:
    """A message. `retained`: the broker had it before we subscribed."""

    topic: str
    payload: bytes
    retained: bool


Event: TypeAlias = Connected | Disconnected | Received
OVERHEAD = 200  # bytes of an event besides its topic and payload, roughly


FRONT = ""  # the lane of connections and disconnections, and of messages that are not sorted


class Inbox:
    """Events in order, within a lane. `put` never blocks; the producer must stop when `full()`."""

    def __init__(
        self, limit: int, on_room: Callable[[], None], *, share: int | None = None, share_count: int = 2**31
    ) -> None:
        self._limit = limit
        self._share, self._share_count = limit if share is None else share, share_count  # bytes and events of a lane
        self._on_room = on_room
        self._queue: SimpleQueue[bool | None] = (
            SimpleQueue()
        )  # a mark per event; its put() is reentrant: safe in signal handlers
        self._lock = threading.Lock()
        self._lanes: dict[str, deque[Event]] = {}
        self._turns: deque[str] = deque()  # non-empty lanes
        self._lane_bytes: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._bytes = 0
        self._full = False
        self._woken = False
        self._closed = False

    def put(self, event: Event, lane: str = FRONT) -> None:
        """Add an event; it is dropped, and counted, if its lane has used its share."""
        if self._closed:
            return
        size = _size(event)
        with self._lock:
            waiting = self._lanes.get(lane)
            if waiting and lane != FRONT and self._has_had_its_share(lane, len(waiting), size):
                self._dropped[lane] += 1
                return
            self._lane_bytes[lane] += size
            self._bytes += size
            self._full = self._full or self._bytes > self._limit
            if waiting is None:
                waiting = self._lanes[lane] = deque()
                if lane == FRONT:
                    self._turns.appendleft(lane)
                else:
                    self._turns.append(lane)
            waiting.append(event)
        self._queue.put(True)

    def get(self, timeout: float) -> Event | None:
        """The next event; None after `timeout` seconds, or at once after `wake`."""
        until = time.monotonic() + timeout
        while True:
            if self._woken:
                self._woken = False
                return None
            try:
                mark = self._queue.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                return None
            if mark is not None:  # None: the mark of a wake(), already handled
                return self._take()

    def dropped(self) -> Counter[str]:
        """Number of dropped events by lane, since the last call."""
        with self._lock:
            found, self._dropped = self._dropped, Counter()
        return found

    def wake(self) -> None:
        """Make the current or next `get` return None at once; from any thread, and from a signal handler."""
        self._woken = True
        self._queue.put(None)

    def close(self) -> None:
        """The consumer is gone: drop all further events."""
        self._closed = True
        self._on_room()

    def full(self) -> bool:
        """Whether the producer must stop; once full, until half of it has been taken."""
        return self._full and not self._closed

    def _has_had_its_share(self, lane: str, count: int, size: int) -> bool:
        return count >= self._share_count or self._lane_bytes[lane] + size > self._share

    def _take(self) -> Event:
        with self._lock:
            lane = self._turns.popleft()
            waiting = self._lanes[lane]
            event = waiting.popleft()
            size = _size(event)
            self._bytes -= size
            if waiting:
                if lane == FRONT:  # a connection comes before its messages
                    self._turns.appendleft(lane)
                else:
                    self._turns.append(lane)
                self._lane_bytes[lane] -= size
            else:
                del self._lanes[lane], self._lane_bytes[lane]
            room = self._full and self._bytes <= self._limit // 2
            self._full = self._full and not room
        if room:
            self._on_room()
        return event


def _size(event: Event) -> int:
    return OVERHEAD + (len(event.topic) + len(event.payload) if isinstance(event, Received) else 0)
