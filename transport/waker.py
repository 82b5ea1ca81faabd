"""Interrupts a poll() from another thread."""

from __future__ import annotations

import contextlib
import socket

__all__ = ["Waker"]


class Waker:
    """A pair of sockets: `wake` makes `fileno` readable until `clear`."""

    def __init__(self) -> None:
        # sockets, not raw pipe descriptors: waking after close() must not write into a reused descriptor
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)

    def fileno(self) -> int:
        """The file descriptor to poll for reading."""
        return self._read.fileno()

    def wake(self) -> None:
        """Interrupt the poll; idempotent, and safe after `close`."""
        with contextlib.suppress(OSError):  # full: already awake
            self._write.send(b"\0")

    def clear(self) -> None:
        """Clear all wakes so far."""
        with contextlib.suppress(OSError):
            while self._read.recv(4096):
                pass

    def close(self) -> None:
        """Free the sockets."""
        self._read.close()
        self._write.close()
