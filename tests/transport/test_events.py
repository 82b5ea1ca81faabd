"""The box between the network thread and the service."""

import threading

import pytest

from tests.transport.events import HOUR, in_time
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
    assert in_time(lambda: inbox.get(HOUR)) is None


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


def message(lane: str, number: int = 0, size: int = 10) -> Received:
    return Received(f"{lane}/{number}", bytes(size), False)


def test_a_connection_comes_before_the_messages_that_it_brings() -> None:
    inbox = Inbox(10**6, lambda: None)
    inbox.put(Disconnected("gone"))
    inbox.put(Connected())
    inbox.put(Received("a/state", b"", True), "a")
    inbox.put(Received("b/state", b"", True), "b")
    kinds = [type(inbox.get(0)) for _ in range(4)]
    assert kinds == [Disconnected, Connected, Received, Received]


def test_lanes_take_turns_and_keep_their_own_order() -> None:
    inbox = Inbox(100_000, lambda: None)
    for number in range(3):
        inbox.put(message("a", number), "a")
    inbox.put(message("b"), "b")
    inbox.put(message("c"), "c")
    assert [inbox.get(0).topic for _ in range(5)] == ["a/0", "b/0", "c/0", "a/1", "a/2"]
    assert inbox.get(0) is None


def test_a_connection_is_told_before_the_messages_that_wait() -> None:
    inbox = Inbox(100_000, lambda: None)
    inbox.put(message("a"), "a")
    inbox.put(Connected())
    assert [type(inbox.get(0)) for _ in range(2)] == [Connected, Received]


@pytest.mark.parametrize("share", [{"share": 1100}, {"share_count": 5}])
def test_a_lane_that_has_had_its_share_drops_what_comes_next_and_nobody_elses(share: dict[str, int]) -> None:
    inbox = Inbox(100_000, lambda: None, **share)
    for number in range(50):
        inbox.put(message("a", number), "a")  # 213 or 214 bytes each, with what an event costs
    inbox.put(message("b"), "b")
    assert dict(inbox.dropped()) == {"a": 45}
    assert dict(inbox.dropped()) == {}
    assert [inbox.get(0).topic for _ in range(6)] == ["a/0", "b/0", "a/1", "a/2", "a/3", "a/4"]
    inbox.put(message("a", 99), "a")
    assert inbox.get(0).topic == "a/99"


def test_one_message_that_is_larger_than_a_share_has_room() -> None:
    inbox = Inbox(100_000, lambda: None, share=100)
    inbox.put(message("a", 0, 5000), "a")
    inbox.put(message("a", 1, 5000), "a")
    assert inbox.get(0).topic == "a/0"
    assert inbox.get(0) is None
    assert dict(inbox.dropped()) == {"a": 1}


def test_a_flood_in_one_lane_does_not_fill_the_box_for_others() -> None:
    inbox = Inbox(100_000, lambda: None, share=10_000)
    for number in range(10_000):
        inbox.put(message("a", number), "a")
    assert not inbox.full()
