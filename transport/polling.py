"""Waiting for one socket, and for whoever wants to interrupt that."""

from __future__ import annotations

import select
from typing import Protocol

from transport.waker import Waker

__all__ = ["Poller", "Socket"]


class Socket(Protocol):
    """A plain or a TLS socket; the latter has `pending` too."""

    def fileno(self) -> int:
        """Its file descriptor."""
        ...


class Poller:
    """poll() on a socket and a waker; select() itself fails beyond file descriptor 1023."""

    def __init__(self, waker: Waker) -> None:
        self._waker, self._poll = waker, select.poll()
        self._poll.register(waker.fileno(), select.POLLIN)

    def wait(self, sock: Socket, *, reading: bool, writing: bool, timeout: float) -> bool:
        """Until the socket can be read (or written), or the waker wakes; whether there is something to read."""
        pending = getattr(sock, "pending", None)  # of TLS: bytes that are here already, which poll() does not see
        if reading and pending is not None and pending():
            return True
        number = sock.fileno()
        if reading or writing:
            self._poll.register(number, (select.POLLIN if reading else 0) | (select.POLLOUT if writing else 0))
        happened = dict(self._poll.poll(timeout * 1000))
        if reading or writing:
            self._poll.unregister(number)  # with an empty mask a closed peer would still end every poll at once
        if self._waker.fileno() in happened:
            self._waker.clear()
        return reading and bool(happened.get(number, 0) & ~select.POLLOUT)
