"""Requests retained states of devices that did not arrive on a new connection.

The subscription to all states makes the broker send every retained one at once. Mosquitto drops those beyond its queue
(1,000 messages by default), silently. A device in a large fleet would then count as gone until its next
connection. Subscribing to the topic of one device sends its state alone, and a hundred fit in any queue.

Brokers that send no retained messages to subscriptions with wildcards (`aggregator/intake/broker_check.py`) are asked
for all that each device has announced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from wire.topics import DeviceTopic, Leaf

__all__ = ["RetainedStates"]

FIRST_S = 1.0  # after the connection: most states have arrived by then
EVERY_S = 0.2
BATCH = 100
#: Retained by a device.
ANNOUNCED: tuple[Leaf, ...] = ("state", "about", "reported", "upgraded")

Change = Callable[[Sequence[str]], bool]


class RetainedStates:
    """The subscriptions to single states on one connection; each is made once, and ended with the next batch."""

    def __init__(self, fleet: str, *, subscribe: Change, unsubscribe: Change) -> None:
        self._fleet, self._subscribe, self._unsubscribe = fleet, subscribe, unsubscribe
        self._due = math.inf
        self._asked: set[str] = set()
        self._open: list[str] = []
        self._new: list[str] = []

    def fetch(self, devices: Collection[str], now: float, *, everything: bool = False) -> None:
        """Ask for what these devices have announced: while they were not known it was not read."""
        leaves = ANNOUNCED if everything else ANNOUNCED[:2]
        self._new += [str(DeviceTopic(self._fleet, device, leaf)) for device in devices for leaf in leaves]
        if devices:
            self._due = min(self._due, now)

    def connected(self, now: float) -> None:
        """A new connection, without any of these subscriptions."""
        self._due, self._asked, self._open, self._new = now + FIRST_S, set(), [], []

    def ask(self, unheard: Collection[str], now: float) -> None:
        """Ask for the states of some of these devices, if it is time."""
        if now < self._due:
            return
        wanted = sorted(set(unheard) - self._asked)[:BATCH]
        if self._open:
            self._unsubscribe(self._open)
        self._open = [str(DeviceTopic(self._fleet, device, "state")) for device in wanted]
        new, self._new = self._new[:BATCH], self._new[BATCH:]
        self._open += new
        if self._open:
            self._subscribe(self._open)
        self._asked.update(wanted)
        self._due = now + EVERY_S if self._open else math.inf
