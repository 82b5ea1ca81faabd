"""What the network thread tells the service, and the bounded box between the two.

The service asks for the next event on its own thread; paho's callbacks only put events in. When the box is full the
network thread stops reading from its socket, so that TCP, and then the broker, hold back what comes next.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TypeAlias

__all__ = ["Connected", "Disconnected", "Event", "Inbox", "Received"]


@dataclass(frozen=True, slots=True)
class Connected:
    """The connection stands and its filters are subscribed: say again what must be known."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection is gone, or could not be made; it is tried again without being asked."""

    reason: str


@dataclass(frozen=True, slots=True)
class Received:
    """A message. Retained: it lay at the broker before we subscribed."""

    topic: str
    payload: bytes
    retained: bool


Event: TypeAlias = Connected | Disconnected | Received
OVERHEAD = 200  # bytes of an event besides its topic and payload, roughly


class Inbox:
    """Events in order. `put` never blocks; whoever puts stops by himself when `full()`."""

    def __init__(self, limit: int, on_room: Callable[[], None]) -> None:
        self._limit = limit
        self._on_room = on_room
        self._queue: SimpleQueue[Event | None] = (
            SimpleQueue()
        )  # its put() may interrupt itself: safe in signal handlers
        self._lock = threading.Lock()
        self._bytes = 0
        self._full = False
        self._woken = False
        self._closed = False

    def put(self, event: Event) -> None:
        """Add an event."""
        if self._closed:
            return
        with self._lock:
            self._bytes += _size(event)
            self._full = self._full or self._bytes > self._limit
        self._queue.put(event)

    def get(self, timeout: float) -> Event | None:
        """The next event; None after `timeout` seconds, or at once after `wake`."""
        until = time.monotonic() + timeout
        while True:
            if self._woken:
                self._woken = False
                return None
            try:
                event = self._queue.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                return None
            if event is not None:  # None: the mark of a wake() that was already noticed, or is above
                self._taken(event)
                return event

    def wake(self) -> None:
        """Let `get` return None at once, or the next call to it; from any thread, and from a signal handler."""
        self._woken = True
        self._queue.put(None)

    def close(self) -> None:
        """Nobody takes events any longer: forget those that still come."""
        self._closed = True
        self._on_room()

    def full(self) -> bool:
        """Whether to hold back; once full, until half of it has been taken."""
        return self._full and not self._closed

    def _taken(self, event: Event) -> None:
        with self._lock:
            self._bytes -= _size(event)
            room = self._full and self._bytes <= self._limit // 2
            self._full = self._full and not room
        if room:
            self._on_room()


def _size(event: Event) -> int:
    return OVERHEAD + (len(event.topic) + len(event.payload) if isinstance(event, Received) else 0)
