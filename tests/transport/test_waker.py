"""Waking a poll."""

import select

import pytest

from transport.waker import Waker

pytestmark = pytest.mark.light


def readable(waker: Waker) -> bool:
    return bool(select.select([waker], [], [], 0)[0])


def test_it_is_readable_from_wake_to_clear() -> None:
    waker = Waker()
    assert not readable(waker)
    waker.wake()
    waker.wake()
    assert readable(waker)
    waker.clear()
    assert not readable(waker)
    waker.clear()
    waker.close()


def test_many_wakes_neither_block_nor_fail() -> None:
    waker = Waker()
    for _ in range(100_000):
        waker.wake()
    waker.clear()
    assert not readable(waker)
    waker.close()
    waker.wake()
