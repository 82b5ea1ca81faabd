"""One MQTT connection, from CONNECT to its end.

Each connection has its own paho client, whose unsent messages are discarded with it. A paho client that reconnects by
itself would resend its unacknowledged QoS 1 messages, ahead of those published after the reconnection. Socket and
client belong to the network thread; other threads only publish and subscribe.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass

import paho.mqtt.client as mqtt
from paho.mqtt.enums import MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from core.errors import ConfigError
from transport.client import IN_FLIGHT, MAX_PACKET, V5, V311, Identity, check_size, connect, new_client, with_expiry
from transport.config import BrokerConfig
from transport.events import FRONT, Connected, Inbox, Received
from transport.outbox import Outbox
from transport.polling import Poller
from transport.probe import speaks_mqtt5
from transport.reader import Admit, Reader
from transport.reasons import closed, explain, lacking, refusal, warnings
from transport.waker import Waker

__all__ = ["Session", "Settings"]

log = logging.getLogger("edgestill.transport")

ANSWER_TIMEOUT = 10.0  # of CONNACK and SUBACK
TICK = 1.0
AT_ONCE = 64  # packets read before anything is written
GOODBYE = 1.0  # seconds to write DISCONNECT
MAX_EARLY = 16 * 2**20
NOWHERE = "edgestill/nowhere"  # a topic without subscribers
TAKEN_OVER = 0x8E
OLD_LIST = "if its access list is of an older edgestill, run `edgestill broker install` again"
ACK_S = 10.0  # after which a probe checks whether an acknowledgement was lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the next connection."""

    broker: BrokerConfig
    identity: Identity
    outbox: int  # bytes that may wait to be written
    level: MQTTProtocolVersion | None = None  # None: probe the broker
    in_flight: int = IN_FLIGHT
    admit: Admit | None = None


class Session:
    """A single connection: `run` on the network thread, the other methods on any."""

    def __init__(self, settings: Settings, inbox: Inbox, waker: Waker) -> None:
        self.settings = settings
        self.reason = ""  # why it ended
        self.level = settings.level
        self.answered = False  # CONNACK has arrived
        self.taken_over = False
        self.in_flight = settings.in_flight  # less if the broker announces less: then reconnect with this
        self.ready_at: float | None = None
        self._client: mqtt.Client | None = None
        self._inbox, self._waker, self._outbox = inbox, waker, Outbox(settings.outbox)
        self._max_packet = MAX_PACKET
        self._early_bytes = 0
        self._early: list[tuple[Received, str]] = []  # arrived before our subscriptions were confirmed
        self._first_subscription: int | None = None
        self._refused: set[str] = set()  # topics of messages that the broker did not take
        self._ending: str | None = None
        self._detail = ""
        self._asked: tuple[int, int, float] | None = None  # pending message, id of the probe, time of the probe

    # on any thread

    @property
    def ready(self) -> bool:
        """Whether messages can be published now."""
        return self._usable() is not None

    def pending(self) -> int:
        """Messages that are not yet written, or with QoS 1 not yet acknowledged."""
        return len(self._outbox)

    def wait_until_sent(self, timeout: float) -> bool:
        """Wait until nothing is pending; False after `timeout` seconds."""
        return self._outbox.wait_until_empty(timeout)

    def publish(self, topic: str, payload: bytes, qos: int, retain: bool, expiry_s: int | None) -> bool:
        """Queue a message; blocks while the outbox is full; False if the connection is gone."""
        size = check_size(topic, payload, self._max_packet)
        client = self._usable()
        if client is None or not self._outbox.wait_for_room(size):
            return False
        info = client.publish(topic, payload, qos, retain, with_expiry(client, expiry_s))
        if info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            return False
        self._outbox.add(info.mid, size, topic if qos else "")
        self._waker.wake()
        return True

    def subscribe(self, topics: Sequence[str]) -> bool:
        """Subscribe to further topics, QoS 1; False if the connection is gone."""
        client = self._usable()
        if client is None:
            return False
        rc, _ = client.subscribe([(topic, 1) for topic in topics])
        self._waker.wake()
        return rc == MQTTErrorCode.MQTT_ERR_SUCCESS

    def unsubscribe(self, topics: Sequence[str]) -> bool:
        """Unsubscribe from these topics; False if the connection is gone."""
        client = self._usable()
        if client is None:
            return False
        rc, _ = client.unsubscribe(list(topics))
        self._waker.wake()
        return rc == MQTTErrorCode.MQTT_ERR_SUCCESS

    def end(self, *, clean: bool) -> None:
        """Make `run` return soon; clean: with DISCONNECT, otherwise the broker publishes our will."""
        self._ending = "clean" if clean else "abort"
        self._waker.wake()

    def _usable(self) -> mqtt.Client | None:
        client = self._client
        ready = (
            self.ready_at is not None and self._ending is None and client is not None and client.socket() is not None
        )
        return client if ready else None

    # on the network thread

    def run(self) -> None:
        """Connect, exchange messages until the connection ends, and set `reason`."""
        try:
            self._client = client = self._new_client()
            connect(client, self.settings.broker)
            self._carry(client)
            if self._ending == "clean":
                self._say_goodbye(client)
        except (ConnectionResetError, ssl.SSLEOFError):
            self.reason = self.reason or self._closed()
        except (OSError, ConfigError) as error:
            self.reason = self.reason or explain(error)
        except Exception as error:  # paho raises anything on a malformed packet
            log.debug("connection to %s", self.settings.broker, exc_info=True)
            self.reason = self.reason or f"cannot understand the broker: {type(error).__name__}: {error}"
        finally:
            if self._client is not None and (sock := self._client.socket()) is not None:
                sock.close()
            self._client = None  # breaks a reference cycle: its buffers would otherwise wait for the garbage collector
            self._outbox.close()
            self.reason = self.reason or "closed"

    def _new_client(self) -> Reader:
        s = self.settings
        self.level = s.level or (V5 if speaks_mqtt5(s.broker) else V311)
        if self.level == V311 and s.broker.protocol == "5":
            raise ConfigError("the broker does not speak MQTT 5; set 'protocol' in [broker] to auto or 3.1.1")
        client = new_client(s.broker, self.level, s.identity, s.in_flight, self._on_error)
        client.admit = s.admit
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        client.on_unsubscribe = self._on_unsubscribe
        return client

    def _carry(self, client: Reader) -> None:
        """Read, write and keep alive until the socket is closed or `end` was called."""
        poller = Poller(self._waker)
        started = judged = time.monotonic()
        while (sock := client.socket()) is not None and self._ending is None:
            reading = not self._inbox.full()
            ahead = reading and client.buffered()
            readable = poller.wait(sock, reading=reading, writing=client.want_write(), timeout=0.0 if ahead else TICK)
            readable = readable or ahead
            if readable:
                self._read(client)
            if client.want_write():
                client.loop_write()
            now = time.monotonic()
            self._ask_for_lost(client, now)
            if self.ready_at is None and now - started > ANSWER_TIMEOUT:
                raise TimeoutError
            if reading and not readable:
                client.loop_misc()  # pings, and times out a silent broker; only when there is nothing left to read
                judged = now
            elif now - judged > client.keepalive / 2:
                # with a read backlog, the answer to a ping would stay unread and paho would time out: a publish also
                # keeps the connection alive, and needs no answer
                client.unsubscribe(NOWHERE)
                judged = now

    def _ask_for_lost(self, client: Reader, now: float) -> None:
        """Probe for a lost acknowledgement: brokers answer requests in order.

        Mosquitto drops packets for a client beyond 1,000 queued ones, including acknowledgements. After 20 lost ones
        nothing more could be sent.
        """
        oldest = self._outbox.oldest()
        if oldest is None or now - oldest[1] < ACK_S:
            self._asked = None
        elif self._asked is None or now - self._asked[2] > ACK_S:  # the answer to the probe may be lost too
            _, number = client.unsubscribe(NOWHERE)
            self._asked = oldest[0], number or 0, now

    def _read(self, client: Reader) -> None:
        """Read a bounded number of packets, so that writing and waiting are not starved."""
        client.loop_read()
        for _ in range(AT_ONCE):
            if not client.buffered() or client.socket() is None or self._inbox.full():
                return
            client.loop_read()

    def _say_goodbye(self, client: mqtt.Client) -> None:
        client.disconnect()
        until, poller = time.monotonic() + GOODBYE, Poller(self._waker)
        while (sock := client.socket()) is not None and time.monotonic() < until:
            client.loop_write()
            poller.wait(sock, reading=False, writing=client.want_write(), timeout=0.1)

    # paho's callbacks, on the network thread: they only record events

    def _on_connect(
        self, client: mqtt.Client, _data: object, _flags: object, code: ReasonCode, properties: Properties | None
    ) -> None:
        self.answered = True
        if code.is_failure:
            self.reason = refusal(code)
            return
        self._max_packet = min(MAX_PACKET, getattr(properties, "MaximumPacketSize", MAX_PACKET))
        self.in_flight = min(self.in_flight, getattr(properties, "ReceiveMaximum", self.in_flight))
        filters = self.settings.identity.filters
        if why := lacking(properties, filters):
            self.reason, self._ending = why, "clean"
        elif self.in_flight < self.settings.in_flight:
            self._ending = "clean"  # paho accepts a new limit only before it connects
        elif filters:
            _, self._first_subscription = client.subscribe([(f, 1) for f in filters])
        else:
            self._become_ready()

    def _on_subscribe(
        self, _client: mqtt.Client, _data: object, number: int, codes: list[ReasonCode], _properties: object
    ) -> None:
        refused = [i for i, code in enumerate(codes) if code.is_failure]
        if number != self._first_subscription:
            if refused:
                log.warning("the broker refused %d of %d subscriptions", len(refused), len(codes))
        elif refused:
            name = self.settings.identity.filters[refused[0]]
            self.reason = f"the broker refuses to subscribe us to {name!r}; fix its access list"
            self._ending = "clean"
        else:
            self._become_ready([code.value for code in codes])

    def _become_ready(self, granted: Sequence[int] = ()) -> None:
        self.ready_at = time.monotonic()
        broker = self.settings.broker
        version, secured = "5" if self.level == V5 else "3.1.1", ", TLS" if broker.tls else ""
        log.info("connected to %s as %r (MQTT %s%s)", broker, self.settings.identity.client_id, version, secured)
        for line in warnings(self._max_packet, granted):
            log.warning("broker %s: %s", broker, line)
        self._inbox.put(Connected())
        for event, lane in self._early:
            self._inbox.put(event, lane)
        self._early.clear()

    def _on_message(self, client: mqtt.Client, _data: object, message: mqtt.MQTTMessage) -> None:
        assert isinstance(client, Reader)
        try:
            lane = FRONT if client.admit is None else client.lane(message)
            if lane is None:
                return
            event = Received(message.topic, bytes(message.payload), message.retain)
        except UnicodeDecodeError:
            return  # not one of our topics
        if self.ready_at is None:
            self._early_bytes += len(event.payload) + len(event.topic)
            if self._early_bytes > MAX_EARLY:
                self.reason, self._ending = "the broker sends before it has confirmed our subscriptions", "abort"
            self._early.append((event, lane))
        else:
            self._inbox.put(event, lane)

    def _on_publish(
        self, _client: mqtt.Client, _data: object, number: int, code: ReasonCode, _properties: object
    ) -> None:
        topic = self._outbox.done(number)
        if code.is_failure and topic not in self._refused:
            self._refused.add(topic)
            log.warning("the broker refused a message%s: %s; %s", f" on {topic!r}" if topic else "", code, OLD_LIST)

    def _on_unsubscribe(
        self, _client: mqtt.Client, _data: object, number: int, _codes: list[ReasonCode], _properties: object
    ) -> None:
        oldest = self._outbox.oldest()
        if oldest is not None and self._asked is not None and self._asked[:2] == (oldest[0], number):
            self.reason = "the broker has lost an acknowledgement"
            self._ending = "clean"

    def _on_disconnect(
        self, client: mqtt.Client, _data: object, flags: mqtt.DisconnectFlags, code: ReasonCode, _properties: object
    ) -> None:
        if self.reason or self._ending is not None:
            return
        if flags.is_disconnect_packet_from_server:
            self.taken_over = code.value == TAKEN_OVER
            self.reason = refusal(code)
        elif str(code) == "Keep alive timeout":
            self.reason = f"no sign of life from the broker for {client.keepalive} s"
        else:
            self.reason = self._closed()

    def _closed(self) -> str:
        return closed(self._detail, answered=self.answered, tls=self.settings.broker.tls is not None)

    def _on_error(self, text: str) -> None:
        self._detail = text
