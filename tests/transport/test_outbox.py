"""What is on its way to the broker is counted and bounded."""

import threading

import pytest

from tests.transport.events import HOUR, in_time
from transport.outbox import MAX_MESSAGES, Outbox

pytestmark = pytest.mark.light


def test_it_counts_messages_until_they_are_done() -> None:
    box = Outbox(100)
    box.add(1, 10)
    box.add(2, 10)
    assert len(box) == 2
    box.done(1)
    assert len(box) == 1
    assert not box.wait_until_empty(0.01)
    box.done(2)
    assert box.wait_until_empty(0.01)


def test_a_message_may_be_done_before_its_publisher_has_said_so() -> None:
    box = Outbox(100)
    box.done(1)
    box.add(1, 50)
    assert len(box) == 0
    box.add(1, 50)  # the same number again, later
    assert len(box) == 1


def test_room_is_waited_for() -> None:
    box = Outbox(100)
    box.add(1, 60)
    assert box.wait_for_room(40)
    threading.Timer(0.1, box.done, [1]).start()
    assert box.wait_for_room(41)
    assert len(box) == 0


def test_an_empty_box_takes_any_size() -> None:
    assert Outbox(100).wait_for_room(1000)


def test_the_number_of_messages_is_bounded_too() -> None:
    box = Outbox(10**9)
    for number in range(MAX_MESSAGES):
        box.add(number, 1)
    threading.Timer(0.05, box.close).start()
    assert not box.wait_for_room(1)


def test_nobody_waits_for_a_connection_that_is_gone() -> None:
    box = Outbox(100)
    box.add(1, 100)
    threading.Timer(0.05, box.close).start()
    assert not box.wait_for_room(1)
    assert not in_time(lambda: box.wait_until_empty(HOUR))
    assert len(box) == 0


def test_the_oldest_message_is_the_next_to_be_done() -> None:
    box = Outbox(100)
    assert box.oldest() is None
    box.add(1, 10)
    number, since = box.oldest() or (0, 0.0)
    box.add(2, 10)
    assert box.oldest() == (1, since)
    box.done(2)
    assert box.oldest() == (1, since)
    box.add(3, 10)
    box.done(1)
    assert box.oldest()[0] == 3
    assert box.oldest()[1] > since
    assert number == 1
