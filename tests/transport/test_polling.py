"""Waiting for a socket: what counts as something to read, and what ends the wait."""

import socket
from collections.abc import Iterator

import pytest

from transport.polling import Poller
from transport.waker import Waker

pytestmark = pytest.mark.light
LONG = 30.0  # seconds: a test that waits for it fails by its duration


@pytest.fixture
def waker() -> Iterator[Waker]:
    made = Waker()
    yield made
    made.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    a, b = socket.socketpair()
    yield a, b
    a.close()
    b.close()


def test_bytes_and_a_closed_peer_are_something_to_read(waker: Waker, pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    poller = Poller(waker)
    assert not poller.wait(ours, reading=True, writing=False, timeout=0)
    theirs.send(b"x")
    assert poller.wait(ours, reading=True, writing=False, timeout=LONG)
    ours.recv(1)
    assert not poller.wait(ours, reading=True, writing=False, timeout=0)
    theirs.close()
    assert poller.wait(ours, reading=True, writing=False, timeout=LONG)


def test_room_to_write_ends_the_wait_and_is_nothing_to_read(
    waker: Waker, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    assert not Poller(waker).wait(ours, reading=True, writing=True, timeout=LONG)
    theirs.send(b"x")
    assert Poller(waker).wait(ours, reading=True, writing=True, timeout=LONG)
    assert not Poller(waker).wait(ours, reading=False, writing=True, timeout=LONG)


def test_a_wake_ends_the_wait_once(waker: Waker, pair: tuple[socket.socket, socket.socket]) -> None:
    poller = Poller(waker)
    waker.wake()
    assert not poller.wait(pair[0], reading=True, writing=False, timeout=LONG)
    waker.wake()
    poller.wait(pair[0], reading=False, writing=False, timeout=LONG)
    assert Poller(waker)._poll.poll(0) == []  # cleared


def test_a_closed_peer_does_not_end_the_wait_of_one_who_does_not_read(
    waker: Waker, pair: tuple[socket.socket, socket.socket]
) -> None:
    pair[1].close()
    poller = Poller(waker)
    assert not poller.wait(pair[0], reading=False, writing=False, timeout=0)
    assert poller._poll.poll(0) == []


def test_what_tls_has_decrypted_already_is_read_without_waiting(waker: Waker) -> None:
    class Buffered:
        def fileno(self) -> int:
            raise AssertionError("asked the system")

        def pending(self) -> int:
            return 5

    assert Poller(waker).wait(Buffered(), reading=True, writing=False, timeout=LONG)
