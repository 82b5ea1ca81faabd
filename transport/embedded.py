"""An embedded broker for demos and tests: amqtt in a thread, on a loopback address only.

Limitations, measured with amqtt 0.12: no MQTT 5, no passwords, no TLS; the will of a silent client is never published,
only that of a broken connection; an unacknowledged message is not redelivered. edgestill's protocol tolerates all of
these; for a fleet of boards use Mosquitto. `transport/embedded_limits.py` adds resource limits. One bug is worked
around here (`_quiet`): amqtt sends each new client the retained messages of all clients' subscriptions, including 50 MB
of models.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from typing import Any

from core.errors import ConfigError, TransportError
from transport.embedded_limits import CONNECTIONS, bounded

__all__ = ["LOOPBACK", "EmbeddedBroker"]

log = logging.getLogger("edgestill.transport")

LOOPBACK = ("127.0.0.1", "localhost", "::1")
ATTEMPTS = 5  # to find a free port: another process can take it before we bind
START_TIMEOUT = 20.0
END_S = 5.0  # for amqtt to shut down
PLUGINS = {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}}


class EmbeddedBroker:
    """`start` returns when it listens; `port` is then its port, also if 0 was asked for."""

    def __init__(self, port: int = 0, host: str = "127.0.0.1") -> None:
        if host not in LOOPBACK:
            raise ConfigError(f"the embedded broker listens on loopback only, not on {host!r}; run Mosquitto instead")
        if not 0 <= port <= 65535:
            raise ConfigError(f"broker port {port}; give 1 to 65535, or 0 for a free one")
        self.host, self.port, self._asked = host, port, port
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started = threading.Event()
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> EmbeddedBroker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen; TransportError if that is impossible."""
        try:
            import amqtt.broker  # noqa: F401  (slow: imported only to start a broker)
        except ImportError as error:
            raise TransportError("the embedded broker needs amqtt; pip install 'edgestill[aggregator]'") from error
        for attempt in range(1, ATTEMPTS + 1):
            self.port = self._asked or _free_port(self.host)
            if self._try_start():
                return
            if self._asked or attempt == ATTEMPTS:
                raise TransportError(f"embedded broker: cannot listen on {self.host}:{self.port}: {_why(self._error)}")

    def stop(self) -> None:
        """Close all connections; retained messages are lost."""
        if self._thread is None or self._loop is None or self._stop is None:
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(3 * END_S)
        self._thread = None

    def _try_start(self) -> bool:
        self._started.clear()
        self._error = None
        self._thread = threading.Thread(target=self._main, name="embedded broker", daemon=True)
        self._thread.start()
        if not self._started.wait(START_TIMEOUT):
            self._error = TimeoutError(f"not ready after {START_TIMEOUT:.0f} s")
        if self._error is not None:
            self._thread = None
        return self._error is None

    def _main(self) -> None:
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(self._serve())
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:  # asyncio.run would wait indefinitely for a task that hangs
                loop.run_until_complete(asyncio.wait(tasks, timeout=END_S))
        finally:
            loop.close()

    async def _serve(self) -> None:
        from amqtt.broker import Broker

        for name in ("amqtt", "transitions"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # it logs every lost connection as an error
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._loop.set_exception_handler(_note)
        bind = f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        listener = {"type": "tcp", "bind": bind, "max_connections": CONNECTIONS}
        broker = bounded(_quiet(Broker))({"listeners": {"default": listener}, "plugins": PLUGINS})
        try:
            await broker.start()
        except Exception as error:  # amqtt wraps the OSError of a taken port in its own errors
            self._error = error
            return
        finally:
            self._started.set()
        await self._stop.wait()
        await _end(broker)


async def _end(broker: Any) -> None:
    """Shut amqtt down; it may wait indefinitely for a client that disconnected in mid-packet."""
    try:
        await asyncio.wait_for(broker.shutdown(), END_S)
    except Exception as error:
        log.debug("the embedded broker did not end by itself: %r", error)
    for server in getattr(broker, "_servers", {}).values():
        if getattr(server, "instance", None) is not None:
            server.instance.close()


def _quiet(base: type[Any]) -> type[Any]:
    """amqtt's broker, which sends a client the retained messages of its own subscriptions only."""

    class Quiet(base):  # type: ignore[misc]
        async def _publish_retained_messages_for_subscription(
            self, subscription: tuple[str, int], session: Any
        ) -> None:
            subscribers = self._subscriptions.get(subscription[0], ())
            if any(other.client_id == session.client_id for other, _ in subscribers):
                await super()._publish_retained_messages_for_subscription(subscription, session)

    return Quiet


def _why(error: BaseException | None) -> str:
    """The operating system's message: amqtt and asyncio wrap it in their own texts."""
    inner = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.errno:
            return os.strerror(inner.errno).lower()
        inner = inner.__cause__
    return str(error)


def _note(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log errors of closed sockets that amqtt leaks to the event loop, which would print tracebacks."""
    log.debug("embedded broker: %s: %r", context.get("message"), context.get("exception"))


def _free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
