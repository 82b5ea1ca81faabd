"""Standard input and output to a port of this machine's loopback: what QEMU starts for each connection of a guest."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading


def main() -> None:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as server:
        guest = socket.socket(fileno=0)
        back = threading.Thread(target=_copy, args=(server, guest), daemon=True)
        back.start()
        _copy(guest, server)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    main()
