"""Does the broker deliver retained messages to new subscriptions, and to those with wildcards?

MQTT 3.1.1 cannot announce that it does not, and RabbitMQ does not for wildcards. So a topic whose message is retained
is subscribed to once more: with a pattern, if there is one, then by its name.

    check = RetainedCheck("garden/all/probe", pattern="garden/+/probe", subscribe=..., unsubscribe=...)
    check.begin(now)                                  after a retained message was published there
    check.heard(topic, retained, now)                 of every message
    match check.poll(now): ...                        the finding, once; None before
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence

__all__ = ["BY_NAME_S", "FIRST_S", "PATTERN_S", "Delivery", "RetainedCheck"]

FIRST_S = 1.0  # until the broker has stored the message
PATTERN_S = 5.0  # for an answer to a subscription with wildcards: a wrong finding costs subscriptions
BY_NAME_S = 30.0  # to one without: a wrong finding costs a wrong warning

Change = Callable[[Sequence[str]], bool]


class Delivery(enum.Enum):
    """The subscriptions to which a broker sends retained messages."""

    ALL = "to all subscriptions"
    BY_NAME = "only to subscriptions without wildcards, as RabbitMQ does"
    NONE = "to no subscription; jobs, models and settings need that: enable it, see docs/brokers.md"


class RetainedCheck:
    """One check after another, each on one connection."""

    def __init__(
        self, topic: str, *, pattern: str | None = None, subscribe: Change, unsubscribe: Change | None = None
    ) -> None:
        """`pattern` matches `topic`. Without `unsubscribe` the subscription stays: the topic has one anyway."""
        self.topic, self._pattern = topic, pattern
        self._subscribe, self._unsubscribe = subscribe, unsubscribe
        self._left: list[str] = []
        self._open, self._due, self._delivered = "", math.inf, False
        self._begun = False  # on this connection

    def begin(self, now: float) -> None:
        """A retained message is on its way to the topic; has no effect a second time on a connection."""
        if self._begun:
            return
        self._begun = True
        self._left = [self.topic] if self._pattern is None else [self._pattern, self.topic]
        self._open, self._due, self._delivered = "", now + FIRST_S, False

    def stop(self) -> None:
        """The connection is lost."""
        self._left, self._open, self._due, self._begun = [], "", math.inf, False

    def heard(self, topic: str, retained: bool, now: float) -> bool:
        """Whether a message is on the topic; a retained one answers the open subscription."""
        if topic == self.topic and retained and self._open:
            self._delivered, self._due = True, now
        return topic == self.topic

    def poll(self, now: float) -> Delivery | None:
        """Take the next step, if it is due; the finding, once there is one."""
        if now < self._due:
            return None
        asked, self._open = self._open, ""
        if asked and self._unsubscribe is not None:
            self._unsubscribe([asked])
        if self._delivered or not self._left:
            self._due = math.inf
            return self._finding(asked)
        self._open = self._left.pop(0)
        self._due = now + (BY_NAME_S if self._open == self.topic else PATTERN_S)
        self._subscribe([self._open])
        return None

    def _finding(self, asked: str) -> Delivery:
        if not self._delivered:
            return Delivery.NONE
        return Delivery.BY_NAME if asked == self.topic and self._pattern is not None else Delivery.ALL
