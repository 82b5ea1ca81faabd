"""Waiting for events in tests; a wait that never ends fails after a minute."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from transport.config import BrokerConfig
from transport.link import Connected, Event, Link, Received

E = TypeVar("E")

END = "end/of/what/is/retained"
HOUR = 3600.0  # a timeout that does not come to pass


def wait_for(link: Link, kind: type[E], timeout: float = 60.0, where: Callable[[E], bool] = lambda _: True) -> E:
    """The next event of a kind; others before it are dropped."""
    until = time.monotonic() + timeout
    seen: list[Event] = []
    while (left := until - time.monotonic()) > 0:
        event = link.next_event(left)
        if isinstance(event, kind) and where(event):
            return event
        if event is not None:
            seen.append(event)
    raise AssertionError(f"no {kind.__name__} within {timeout} s; came: {seen[-5:]}")


def connected(link: Link) -> Link:
    """Start and wait until it stands."""
    link.start()
    wait_for(link, Connected)
    return link


def messages(link: Link, count: int, timeout: float = 60.0) -> list[Received]:
    """The next `count` messages."""
    return [wait_for(link, Received, timeout) for _ in range(count)]


def in_time(call: Callable[[], E], timeout: float = 60.0) -> E:
    """What a call returns that must not wait for its own, much longer timeout."""
    found: list[E] = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()
    thread.join(timeout)
    assert found, f"still waiting after {timeout} s, or failed"
    return found[0]


def retained(broker: BrokerConfig, pattern: str, client_id: str = "newcomer") -> list[Received]:
    """What the broker keeps: all that a newcomer is given before its own first message comes back."""
    with Link(broker, client_id=client_id, filters=[pattern, END]) as link:
        wait_for(link, Connected)
        assert link.publish(END, b"")
        found = [wait_for(link, Received)]
        while found[-1].topic != END:
            found.append(wait_for(link, Received))
    return [message for message in found if message.retained]  # others are on their way still


def eventually(claim: Callable[[], bool], timeout: float = 60.0) -> bool:
    """Whether the claim becomes true."""
    until = time.monotonic() + timeout
    while not claim():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True
