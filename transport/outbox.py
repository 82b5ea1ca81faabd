"""Messages queued in the MQTT client: counted, so that a burst cannot fill the memory."""

from __future__ import annotations

import threading
import time

__all__ = ["MAX_MESSAGES", "Outbox"]

MAX_MESSAGES = 30_000  # MQTT numbers its messages with 16 bits


class Outbox:
    """Messages of one connection that are not yet written (QoS 0) or not yet acknowledged (QoS 1)."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._changed = threading.Condition()
        self._sizes: dict[int, int] = {}
        self._topics: dict[int, str] = {}
        self._early: set[int] = set()  # done() before add(): the network thread can be faster than the publisher
        self._bytes = 0
        self._since = 0.0  # when the oldest became the oldest
        self._closed = False

    def __len__(self) -> int:
        return len(self._sizes)

    def wait_for_room(self, size: int) -> bool:
        """Block until `size` bytes fit (an empty box takes any); False if the connection ended first."""
        with self._changed:
            while not self._closed and not self._fits(size):
                self._changed.wait(0.5)  # a timeout, so that the main thread can handle signals
            return not self._closed

    def wait_until_empty(self, timeout: float) -> bool:
        """Wait until the outbox is empty; False after `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self._sizes, timeout)
            return not self._closed and not self._sizes

    def add(self, number: int, size: int, topic: str = "") -> None:
        """Message `number` was queued."""
        with self._changed:
            if number in self._early:
                self._early.remove(number)
            else:
                self._since = self._since if self._sizes else time.monotonic()
                self._sizes[number] = size
                self._topics[number] = topic
                self._bytes += size

    def done(self, number: int) -> str:
        """Message `number` was written or acknowledged; its topic, as far as it is known by now."""
        with self._changed:
            if next(iter(self._sizes), None) == number:
                self._since = time.monotonic()
            size = self._sizes.pop(number, None)
            if size is None:
                self._early.add(number)
            else:
                self._bytes -= size
                self._changed.notify_all()
            return self._topics.pop(number, "")

    def oldest(self) -> tuple[int, float] | None:
        """The oldest pending message, and since when it is the oldest."""
        with self._changed:
            number = next(iter(self._sizes), None)
            return None if number is None else (number, self._since)

    def close(self) -> None:
        """The connection ended: release all waiting threads."""
        with self._changed:
            self._closed = True
            self._sizes.clear()
            self._topics.clear()
            self._changed.notify_all()

    def _fits(self, size: int) -> bool:
        return not self._sizes or (self._bytes + size <= self._limit and len(self._sizes) < MAX_MESSAGES)
