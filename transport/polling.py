"""Waiting for one socket, interruptible by other threads."""

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
        """Wait until the socket is readable (or writable), or the waker wakes; return whether it is readable."""
        pending = getattr(sock, "pending", None)  # TLS: decrypted bytes that poll() does not see
        if reading and pending is not None and pending():
            return True
        number = sock.fileno()
        if reading or writing:
            self._poll.register(number, (select.POLLIN if reading else 0) | (select.POLLOUT if writing else 0))
        happened = dict(self._poll.poll(timeout * 1000))
        if reading or writing:
            self._poll.unregister(number)  # even with an empty mask, a closed peer would end every poll at once
        if self._waker.fileno() in happened:
            self._waker.clear()
        return reading and bool(happened.get(number, 0) & ~select.POLLOUT)
