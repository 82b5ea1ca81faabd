"""The box between the network thread and the service."""

import threading
import time

import pytest

from transport.events import Connected, Disconnected, Inbox, Received

pytestmark = pytest.mark.light


def test_events_come_out_in_the_order_they_went_in() -> None:
    inbox = Inbox(1000, lambda: None)
    events = [Connected(), Received("t", b"1", False), Disconnected("x")]
    for event in events:
        inbox.put(event)
    assert [inbox.get(0) for _ in range(4)] == [*events, None]


def test_it_is_full_beyond_its_bytes_until_half_of_them_are_taken() -> None:
    room: list[int] = []
    inbox = Inbox(10_000, lambda: room.append(1))
    for _ in range(5):
        inbox.put(Received("t", bytes(2_000), False))  # 2,201 with what an event costs
    assert inbox.full()
    for still in (True, True, False):  # 8,804 and 6,603 wait, then 4,402
        inbox.get(0)
        assert inbox.full() is still
    assert room == [1]
    inbox.put(Received("t", bytes(2_000), False))
    assert not inbox.full()


def test_empty_messages_fill_it_too() -> None:
    inbox = Inbox(10_000, lambda: None)
    for _ in range(51):
        inbox.put(Received("", b"", False))
    assert inbox.full()


def test_wake_overtakes_what_waits_and_counts_once() -> None:
    inbox = Inbox(1000, lambda: None)
    inbox.put(Connected())
    for _ in range(3):
        inbox.wake()
    assert inbox.get(5) is None
    assert inbox.get(5) == Connected()
    assert inbox.get(0.05) is None
    inbox.put(Connected())
    assert inbox.get(5) == Connected()


def test_wake_ends_a_wait_in_another_thread() -> None:
    inbox = Inbox(1000, lambda: None)
    threading.Timer(0.05, inbox.wake).start()
    started = time.monotonic()
    assert inbox.get(10) is None
    assert time.monotonic() - started < 2


def test_a_closed_box_forgets_and_is_never_full() -> None:
    room: list[int] = []
    inbox = Inbox(100, lambda: room.append(1))
    inbox.put(Received("t", bytes(200), False))
    assert inbox.full()
    inbox.close()
    assert room == [1]
    assert not inbox.full()
    inbox.put(Connected())
    assert isinstance(inbox.get(0), Received)
    assert inbox.get(0) is None
