"""The connection of a service to its broker, which reconnects indefinitely.

    link = Link(BrokerConfig(), client_id="pi-07", filters=["edgestill/pi-07/job"], will=(topic, payload))
    link.start()
    while running:
        match link.next_event(1.0):
            case Connected(): ...       # publish again what must be known: nothing is resent automatically
            case Received(topic, payload, retained): ...
    link.stop(last=[(topic, payload)])

A service needs one thread; the link's own thread reads and writes the socket.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from transport.backoff import LAST, Backoff
from transport.client import MAX_PACKET, V311, Identity, check_size
from transport.config import BrokerConfig
from transport.events import Connected, Disconnected, Event, Inbox, Received
from transport.reader import Admit
from transport.session import Session, Settings
from transport.tls import tls_context
from transport.waker import Waker

__all__ = ["MAX_PACKET", "Connected", "Disconnected", "Event", "Link", "Received"]

log = logging.getLogger("edgestill.transport")

LEVELS = {"auto": None, "5": None, "3.1.1": V311}  # None: probe the broker
INBOX, OUTBOX = 32 * 2**20, 64 * 2**20  # bytes that may be queued, each way
SHARE, SHARE_COUNT = 8, 32  # one sender may take an eighth of the inbox, and this many messages
GOODBYE = 2.0  # seconds for the last messages


class Link:
    """One broker, one client id, its own network thread; reconnects with exponential backoff, 0.2 s to 10 s."""

    def __init__(
        self,
        broker: BrokerConfig,
        *,
        client_id: str,
        filters: Sequence[str],
        will: tuple[str, bytes] | None = None,
        inbox: int = INBOX,
        outbox: int = OUTBOX,
        admit: Admit | None = None,
    ) -> None:
        """`admit`, called on the link's thread with topic and size of each incoming message, returns its sender.

        Senders are then served round-robin, and none gets more than its share of the inbox; None drops the message.
        """
        if broker.tls is not None:
            tls_context(broker.tls)  # invalid files are reported here, to the caller
        if will is not None:
            check_size(*will)
        identity = Identity(client_id, tuple(filters), will)
        self._settings = Settings(
            broker=broker, identity=identity, level=LEVELS[broker.protocol], outbox=outbox, admit=admit
        )
        self._waker = Waker()
        self._inbox = Inbox(inbox, self._waker.wake, share=inbox // SHARE, share_count=SHARE_COUNT)
        self._session: Session | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"mqtt {client_id}", daemon=True)

    def __enter__(self) -> Link:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Connect in the background; the event `Connected` follows."""
        self._thread.start()

    def stop(self, last: Sequence[tuple[str, bytes]] = ()) -> None:
        """Publish the last messages (retained, QoS 1) and disconnect; if they are not delivered, the will is
        published."""
        self._inbox.close()
        session = self._session
        said = session is not None and all(self.publish(topic, payload, retain=True) for topic, payload in last)
        delivered = not last or (said and session is not None and session.wait_until_sent(GOODBYE))
        self._stopping.set()  # before checking again, so that a connection being made now is not missed
        if (current := self._session) is not None:
            current.end(clean=delivered and (not last or current is session))
        self._waker.wake()
        if self._thread.is_alive():
            self._thread.join(GOODBYE + 1)
        if not self._thread.is_alive():  # otherwise it hangs in a name lookup, and ends with the process
            self._waker.close()

    @property
    def connected(self) -> bool:
        """Whether it is connected now; the event `Connected` may still be queued."""
        session = self._session
        return session is not None and session.ready

    def next_event(self, timeout: float) -> Event | None:
        """The next event; None after `timeout` seconds, or at once after `wake`."""
        return self._inbox.get(timeout)

    def dropped(self) -> Mapping[str, int]:
        """Number of messages dropped because their sender's share was full, by sender, since the last call."""
        return self._inbox.dropped()

    def wake(self) -> None:
        """Make `next_event` return None at once; from any thread, and from a signal handler."""
        self._inbox.wake()

    def publish(
        self, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False, expiry_s: int | None = None
    ) -> bool:
        """Queue a message; True does not mean that it was delivered.

        False: not connected, and the message is dropped; publish again on `Connected`.
        Blocks while more than `outbox` bytes are queued: see `pending`.
        TransportError: the packet is larger than the broker accepts; it is not sent.
        `expiry_s`: useless to receivers after so many seconds; only supported by MQTT 5.
        """
        check_size(topic, payload)
        session = self._session
        return session is not None and session.publish(topic, payload, qos, retain, expiry_s)

    def subscribe(self, topics: Sequence[str]) -> bool:
        """Subscribe to further topics until the connection ends; False: not connected."""
        session = self._session
        return session is not None and session.subscribe(topics)

    def unsubscribe(self, topics: Sequence[str]) -> bool:
        """Unsubscribe from these topics; False: not connected."""
        session = self._session
        return session is not None and session.unsubscribe(topics)

    def pending(self) -> int:
        """Messages that are not yet written to the socket (QoS 0) or not yet acknowledged by the broker (QoS 1)."""
        session = self._session
        return 0 if session is None else session.pending()

    def _run(self) -> None:
        backoff, told = Backoff(), ""
        while not self._stopping.is_set():
            self._session = session = Session(self._settings, self._inbox, self._waker)
            if not self._stopping.is_set():
                session.run()
            self._session = None
            if self._stopping.is_set() or self._learned_from(session):
                continue
            stood = None if session.ready_at is None else time.monotonic() - session.ready_at
            delay = LAST if session.taken_over else backoff.wait(stood)
            reason = session.reason
            if backoff.restless:
                reason += f"; does another client use the id {self._settings.identity.client_id!r}?"
            if stood is not None or reason != told:
                log.warning("broker %s: %s; trying again in %.1f s", self._settings.broker, reason, delay)
                self._inbox.put(Disconnected(reason))
            told = reason
            self._stopping.wait(delay)

    def _learned_from(self, session: Session) -> bool:
        """Store the limits announced by the broker; return whether to reconnect at once with other settings."""
        in_flight = session.in_flight < self._settings.in_flight
        level = session.level if session.answered else LEVELS[self._settings.broker.protocol]
        self._settings = replace(self._settings, level=level, in_flight=session.in_flight)
        return in_flight
