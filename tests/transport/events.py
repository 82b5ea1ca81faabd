"""Waiting for events in tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from transport.link import Connected, Event, Link, Received

E = TypeVar("E")


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


def eventually(claim: Callable[[], bool], timeout: float = 60.0) -> bool:
    """Whether the claim becomes true."""
    until = time.monotonic() + timeout
    while not claim():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True
