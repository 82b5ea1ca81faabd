"""What the broker does with retained messages, and what the aggregator makes of it.

After each connection it keeps a message of its own at the broker for a moment (`transport/retained_check.py`). If
subscriptions with wildcards bring no retained messages, what devices have announced is fetched device by device.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from aggregator.intake.retained_states import RetainedStates
from transport.events import FRONT
from transport.link import Link
from transport.reader import Admit
from transport.retained_check import Delivery, RetainedCheck
from wire.topics import probe_filter, probe_topic

__all__ = ["BrokerCheck", "admitting"]

log = logging.getLogger("edgestill.aggregator")


class BrokerCheck:
    """The check of one connection after another; a finding is logged when it is a new one."""

    def __init__(self, fleet: str, link: Link, states: RetainedStates, known: Callable[[], Collection[str]]) -> None:
        self._link, self._states, self._known = link, states, known
        self._check = RetainedCheck(
            probe_topic(fleet), pattern=probe_filter(fleet), subscribe=link.subscribe, unsubscribe=link.unsubscribe
        )
        self.delivery: Delivery | None = None  # None: not known yet

    def connected(self, now: float) -> None:
        """A new connection, perhaps to another broker."""
        self._check.stop()
        self._link.publish(self._check.topic, b"?", retain=True)
        self._check.begin(now)

    def lost(self) -> None:
        """The connection ended."""
        self._check.stop()

    def heard(self, topic: str, retained: bool, now: float) -> bool:
        """Whether the message is the check's own."""
        return self._check.heard(topic, retained, now)

    def poll(self, now: float) -> None:
        """Take the next step, and act on a finding."""
        found = self._check.poll(now)
        if found is None:
            return
        self._link.publish(self._check.topic, b"", retain=True)
        if found is Delivery.BY_NAME:
            self._states.fetch(sorted(self._known()), now, everything=True)
        before, self.delivery = self.delivery, found
        if found is not before and found is not Delivery.ALL:
            level = logging.INFO if found is Delivery.BY_NAME else logging.WARNING
            log.log(level, "the broker sends retained messages %s", found.value)


def admitting(fleet: str, admit: Admit) -> Admit:
    """`admit`, which knows devices alone, and the messages of the check."""
    own = probe_topic(fleet)
    return lambda topic, size: FRONT if topic == own else admit(topic, size)
