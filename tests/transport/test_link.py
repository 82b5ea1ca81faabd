"""The link on a real Mosquitto and on the embedded broker."""

import logging
import os
import re
import signal
import threading
import time

import pytest

from core.errors import TransportError
from tests.brokers import Broker, Embedded, Mosquitto
from tests.proxy import Proxy
from tests.transport.events import connected, eventually, in_time, messages, wait_for
from transport.config import BrokerConfig
from transport.link import Connected, Disconnected, Link, Received

pytestmark = pytest.mark.light


def test_what_one_link_publishes_another_receives(broker: Broker) -> None:
    with Link(broker.config, client_id="a", filters=["t/+"]) as a, Link(broker.config, client_id="b", filters=[]) as b:
        wait_for(a, Connected)
        wait_for(b, Connected)
        for qos in (0, 1):
            assert b.publish(f"t/{qos}", b"\x00\xff" * qos, qos=qos)
        assert sorted(messages(a, 2), key=lambda m: m.topic) == [
            Received("t/0", b"", False),
            Received("t/1", b"\x00\xff", False),
        ]


def test_a_retained_message_comes_after_connected_and_says_that_it_is_retained(broker: Broker) -> None:
    with Link(broker.config, client_id="a", filters=[]) as a:
        wait_for(a, Connected)
        assert a.publish("t/old", b"1", retain=True)
        assert eventually(lambda: a.pending() == 0)
    with Link(broker.config, client_id="b", filters=["t/old"]) as b:
        assert b.next_event(60) == Connected()
        assert b.next_event(60) == Received("t/old", b"1", True)


def test_topics_can_be_added_and_removed(broker: Broker) -> None:
    with Link(broker.config, client_id="a", filters=["base"]) as a:
        wait_for(a, Connected)
        assert a.subscribe(["t/1", "t/2"])
        a.publish("t/1", b"1")
        a.publish("t/2", b"2")
        assert {m.topic for m in messages(a, 2)} == {"t/1", "t/2"}
        assert a.unsubscribe(["t/1"])
        a.publish("t/1", b"1")
        a.publish("base", b"end")
        assert messages(a, 1)[0].topic == "base"


def test_without_a_connection_nothing_is_taken_or_kept(broker: Broker) -> None:
    link = Link(broker.config, client_id="a", filters=["t"])
    assert not link.publish("t", b"early")
    assert not link.subscribe(["u"])
    assert not link.unsubscribe(["u"])
    assert link.pending() == 0
    assert not link.connected
    with link:
        wait_for(link, Connected)
        assert link.connected
        assert link.publish("t", b"late")
        assert messages(link, 1)[0].payload == b"late"


def test_it_comes_back_when_the_broker_does_and_subscribes_again(broker: Broker) -> None:
    with Link(broker.config, client_id="a", filters=["t"]) as link:
        wait_for(link, Connected)
        broker.stop()
        assert wait_for(link, Disconnected).reason
        assert not link.publish("t", b"x")
        assert not link.connected
        broker.start()
        wait_for(link, Connected)
        assert link.publish("t", b"again")
        assert messages(link, 1) == [Received("t", b"again", False)]


def test_it_waits_for_a_broker_that_is_not_there_yet_and_says_why_once(broker: Broker) -> None:
    config = broker.config
    broker.stop()
    with Link(config, client_id="a", filters=["t"]) as link:
        assert link.next_event(60) == Disconnected("connection refused; is a broker running there?")
        assert link.next_event(0.6) is None
        broker.start()
        wait_for(link, Connected)


def test_stop_says_the_last_words_and_the_will_stays_silent(broker: Broker) -> None:
    with Link(broker.config, client_id="w", filters=["state"]) as watcher:
        wait_for(watcher, Connected)
        # subscribed: amqtt publishes the will if DISCONNECT follows CONNECT before it listens to the client
        link = connected(Link(broker.config, client_id="a", filters=["t"], will=("state", b"lost")))
        link.stop(last=[("state", b"offline")])
        assert messages(watcher, 1)[0].payload == b"offline"
        assert watcher.next_event(0.5) is None
    with Link(broker.config, client_id="later", filters=["state"]) as later:
        assert wait_for(later, Received) == Received("state", b"offline", True)


def test_stop_can_be_called_again_and_before_start(broker: Broker) -> None:
    link = connected(Link(broker.config, client_id="a", filters=[]))
    link.stop()
    link.stop()
    assert not link.publish("t", b"")
    Link(broker.config, client_id="b", filters=[]).stop()


def test_wake_ends_the_wait_at_once_from_a_thread_and_from_a_signal_handler(broker: Broker) -> None:
    with Link(broker.config, client_id="a", filters=[]) as link:
        wait_for(link, Connected)
        before = signal.signal(signal.SIGUSR1, lambda *_: link.wake())
        try:
            for wake in (link.wake, lambda: os.kill(os.getpid(), signal.SIGUSR1)):
                timer = threading.Timer(0.1, wake)
                timer.start()
                started = time.monotonic()
                assert link.next_event(60) is None
                assert time.monotonic() - started < 60
                timer.join()
        finally:
            signal.signal(signal.SIGUSR1, before)
        link.wake()
        link.wake()
        assert link.next_event(60) is None
        assert link.next_event(0.05) is None


def test_a_packet_that_is_too_large_never_leaves(broker: Broker) -> None:
    with Link(broker.config, client_id="a", filters=["t"]) as link:
        wait_for(link, Connected)
        assert link.publish("t", bytes(1_900_061 + 60))  # the largest chunk there is, and a long topic
        assert len(messages(link, 1)[0].payload) == 1_900_121
        with pytest.raises(TransportError, match="'t': a packet of 2000025 bytes, the broker takes 2000000"):
            link.publish("t", bytes(2_000_000))
        assert link.publish("t", b"still here")
        assert messages(link, 1)[0].payload == b"still here"


def test_a_burst_of_a_thousand_chunks_does_not_block_and_arrives(broker: Broker) -> None:
    with (
        Proxy(broker.port) as proxy,
        Link(broker.config, client_id="a", filters=["t"]) as a,
        Link(proxy.config, client_id="b", filters=[]) as b,
    ):
        wait_for(a, Connected)
        wait_for(b, Connected)
        proxy.pause()
        assert in_time(lambda: all(b.publish("t", bytes(16_384), qos=0) for _ in range(1000)))
        proxy.resume()
        assert len(messages(a, 1000)) == 1000
        assert eventually(lambda: b.pending() == 0)


def test_each_connection_and_each_loss_is_one_line_in_the_log(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "edgestill.transport"):
        with Link(broker.config, client_id="a", filters=["t"]) as link:
            wait_for(link, Connected)
            broker.stop()
            wait_for(link, Disconnected)
            wait_for(link, Disconnected)  # cannot connect: another reason, told once
        lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert re.fullmatch(rf"connected to 127.0.0.1:{broker.port} as 'a' \(MQTT (5|3.1.1)\)", lines[0])
    assert re.fullmatch(rf"broker 127.0.0.1:{broker.port}: .+; trying again in 0\.\d s", lines[1])
    assert "connection refused" in lines[2]


def test_auto_means_mqtt_5_where_the_broker_has_it(mosquitto: Mosquitto) -> None:
    with Link(mosquitto.config, client_id="five", filters=["t"]) as link:
        wait_for(link, Connected)
        assert "as five (p5," in mosquitto.log
    with Link(BrokerConfig(port=mosquitto.port, protocol="3.1.1"), client_id="three", filters=["t"]) as link:
        wait_for(link, Connected)
        assert re.search(r"as three \(p[24],", mosquitto.log)  # 2.0 counts it as the second, 2.1 by its level


def test_a_broker_without_mqtt_5_is_no_reason_to_wait() -> None:
    will = ("w", b"x" * 300)
    with Embedded() as broker, Proxy(broker.port) as proxy:
        with Link(proxy.config, client_id="a", filters=["t"], will=will) as link:
            assert link.next_event(60) == Connected()
        assert proxy.connections == 2  # the probe, and the first attempt
    config = BrokerConfig(port=broker.port, protocol="5")
    with broker, Link(config, client_id="a", filters=["t"]) as link:
        assert "does not speak MQTT 5; set 'protocol'" in wait_for(link, Disconnected).reason
