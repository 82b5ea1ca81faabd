"""A broker that answers each CONNECT with bytes from a script: for what real brokers rarely say."""

from __future__ import annotations

import socket
import threading
import time

from transport.config import BrokerConfig

CONNACK5 = b"\x20\x03\x00\x00\x00"


class Scripted:
    """`answers` are for one connection after another, the last for all that follow; each is sent, and then held."""

    def __init__(self, *answers: bytes, close: bool = False) -> None:
        self._answers, self._close = list(answers), close
        self._server = socket.create_server(("127.0.0.1", 0))
        self._held: list[socket.socket] = []
        self.connections: list[float] = []
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def config(self) -> BrokerConfig:
        return BrokerConfig(port=self._server.getsockname()[1])

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()
        for sock in self._held:
            sock.close()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:
                return
            self.connections.append(time.monotonic())
            answer = self._answers[0] if len(self._answers) == 1 else self._answers.pop(0)
            sock.recv(1000)
            sock.sendall(answer)
            if self._close:
                sock.shutdown(socket.SHUT_WR)
            self._held.append(sock)
