"""The link when the network, the broker or the service itself misbehaves."""

import gc
import os
import threading
import time
import weakref
from pathlib import Path

import pytest

from core.settings import replace
from tests.brokers import DEFAULTS_2_1, Broker, Mosquitto, mosquitto_version
from tests.proxy import Proxy
from tests.transport.events import connected, eventually, messages, wait_for
from tests.transport.scripted import CONNACK5, Scripted
from transport.link import Connected, Disconnected, Link, Received

pytestmark = pytest.mark.light


def up_to(link: Link, last: bytes) -> list[bytes]:
    """All payloads up to the one that was sent last."""
    payloads = [messages(link, 1)[0].payload]
    while payloads[-1] != last:
        payloads += [messages(link, 1)[0].payload]
    return payloads


@pytest.mark.parametrize("qos", [0, 1])
def test_nothing_survives_a_reconnection(broker: Broker, qos: int) -> None:
    with Link(broker.config, client_id="sink", filters=["t"]) as sink, Proxy(broker.port) as proxy:
        wait_for(sink, Connected)
        with Link(proxy.config, client_id="a", filters=[]) as link:
            wait_for(link, Connected)
            assert link.publish("t", b"before", qos=qos)
            assert messages(sink, 1)[0].payload == b"before"
            proxy.pause()
            for _ in range(250):  # 25 MB: more than socket buffers hold, so some are queued and one is half written
                assert link.publish("t", bytes(100_000), qos=qos)
            assert link.pending() > 10
            proxy.cut()
            wait_for(link, Disconnected)
            proxy.resume()
            wait_for(link, Connected)
            assert link.pending() == 0
            assert link.publish("t", b"after", qos=qos)
            assert up_to(sink, b"after") == [b"after"]


def test_a_packet_that_is_cut_in_two_is_lost_as_a_whole(broker: Broker) -> None:
    with Link(broker.config, client_id="sink", filters=["t"]) as sink, Proxy(broker.port) as proxy:
        wait_for(sink, Connected)
        with Link(proxy.config, client_id="a", filters=[]) as link:
            wait_for(link, Connected)
            proxy.set(cut_every=500_000)
            assert link.publish("t", bytes(1_000_000), qos=0)
            wait_for(link, Disconnected)
            assert proxy.cuts == 1
            wait_for(link, Connected)
            assert link.publish("t", b"whole", qos=0)
            assert up_to(sink, b"whole") == [b"whole"]


def test_a_broken_connection_publishes_the_will(broker: Broker) -> None:
    with Link(broker.config, client_id="w", filters=["state"]) as watcher, Proxy(broker.port) as proxy:
        wait_for(watcher, Connected)
        with Link(proxy.config, client_id="a", filters=[], will=("state", b"lost")) as link:
            wait_for(link, Connected)
            assert link.publish("state", b"online", retain=True)
            assert messages(watcher, 1)[0].payload == b"online"
            proxy.cut()
            assert messages(watcher, 1)[0].payload == b"lost"


@pytest.mark.broker
def test_last_words_that_cannot_be_delivered_leave_the_word_to_the_will(mosquitto: Mosquitto) -> None:
    with Link(mosquitto.config, client_id="w", filters=["state"]) as watcher, Proxy(mosquitto.port) as proxy:
        wait_for(watcher, Connected)
        link = connected(Link(proxy.config, client_id="a", filters=[], will=("state", b"lost")))
        proxy.pause()
        link.stop(last=[("state", b"offline")])  # returns although nothing passes
        assert not link.connected
        proxy.resume()
        wait_for(watcher, Received, where=lambda m: m.payload == b"lost")


@pytest.mark.broker
def test_a_silent_network_is_noticed_and_survived(mosquitto: Mosquitto) -> None:
    with Proxy(mosquitto.port) as proxy:
        config = replace(proxy.config, keepalive_s=1)
        with Link(config, client_id="a", filters=["t"]) as link:
            wait_for(link, Connected)
            proxy.pause()
            noticed = {"no sign of life from the broker for 1 s"}
            if mosquitto_version() >= (2, 1):  # it may be first to notice, and the proxy hands its end on
                noticed.add("the broker closed the connection")
            assert wait_for(link, Disconnected).reason in noticed
            proxy.resume()
            wait_for(link, Connected, 120)
            assert link.publish("t", b"x")
            assert messages(link, 1)[0].payload == b"x"


@pytest.mark.broker
def test_keep_alives_hold_an_idle_connection(tmp_path: Path) -> None:
    with (
        Mosquitto(tmp_path, [*DEFAULTS_2_1, "log_type all"]) as mosquitto,
        Link(replace(mosquitto.config, keepalive_s=3), client_id="a", filters=["t"]) as link,
    ):
        wait_for(link, Connected)
        assert eventually(lambda: mosquitto.log.count("PINGREQ from a") >= 2)  # it would have ended after 4.5 s
        assert link.next_event(0) is None
        assert link.connected


def test_a_slow_service_holds_the_broker_back_and_keeps_its_connection(broker: Broker) -> None:
    inbox = 200_000
    with (
        Link(replace(broker.config, keepalive_s=3), client_id="slow", filters=["t"], inbox=inbox) as slow,
        Link(broker.config, client_id="b", filters=[]) as fast,
    ):
        wait_for(slow, Connected)
        wait_for(fast, Connected)
        for number in range(300):
            assert fast.publish("t", number.to_bytes(2, "big") + bytes(50_000))
        assert eventually(slow._inbox.full)
        signs = signs_of_life(slow)
        assert eventually(lambda: len(signs) >= 2)  # over 4.5 s, in the middle of 15 MB
        assert inbox < slow._inbox._bytes < 2 * inbox + 100_000
        got = []
        while len(got) < 300:
            event = slow.next_event(60)
            assert isinstance(event, Received), event  # no Disconnected among them
            got.append(int.from_bytes(event.payload[:2], "big"))
        assert sorted(got) == list(range(300))


def signs_of_life(link: Link) -> list[object]:
    """Grows by what the link sends only to show that it is there."""
    assert link._session is not None
    client = link._session._client
    assert client is not None
    sent: list[object] = []
    send = client.unsubscribe
    client.unsubscribe = lambda topic: (sent.append(topic), send(topic))[1]  # type: ignore[method-assign]
    return sent


@pytest.mark.broker
def test_many_reconnections_leak_neither_threads_nor_files(mosquitto: Mosquitto) -> None:
    def files() -> int:
        return len(os.listdir("/proc/self/fd"))

    with Proxy(mosquitto.port) as proxy:
        links = [Link(proxy.config, client_id=f"d{i}", filters=["t"]) for i in range(8)]
        for link in links:
            connected(link)
        threads, before = threading.active_count(), files()
        for _ in range(4):
            proxy.cut()
            for link in links:
                wait_for(link, Connected)
        assert proxy.cuts == 32
        assert threading.active_count() == threads
        assert eventually(lambda: files() <= before), (before, files())
        for link in links:
            link.stop()
        assert threading.active_count() == threads - 8


def test_what_a_lost_connection_still_held_is_freed_at_once(broker: Broker) -> None:
    with Proxy(broker.port) as proxy, Link(proxy.config, client_id="a", filters=[]) as link:
        wait_for(link, Connected)
        proxy.pause()
        for _ in range(20):
            assert link.publish("t", bytes(1_000_000), qos=0)
        assert link._session is not None
        client = weakref.ref(link._session._client)
        gc.disable()
        try:
            proxy.cut()
            wait_for(link, Disconnected)
            assert eventually(lambda: client() is None)
        finally:
            gc.enable()
            proxy.resume()


def test_failed_attempts_leak_nothing_either(broker: Broker) -> None:
    config = broker.config
    broker.stop()
    threads, before = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for number in range(20):
        link = Link(config, client_id=f"a{number}", filters=["t"])
        link.start()
        wait_for(link, Disconnected)
        link.stop()
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.broker
def test_a_broker_killed_in_the_middle_of_a_burst_is_found_again(mosquitto: Mosquitto) -> None:
    with Link(mosquitto.config, client_id="a", filters=["t"]) as link:
        wait_for(link, Connected)
        for _ in range(200):
            assert link.publish("t", bytes(50_000), qos=0)
        mosquitto.kill()
        wait_for(link, Disconnected)
        mosquitto.start()
        wait_for(link, Connected)
        assert link.publish("t", b"again")
        assert messages(link, 1) == [Received("t", b"again", False)]


def test_threads_may_publish_and_wake_at_the_same_time(broker: Broker) -> None:
    with (
        Link(broker.config, client_id="sink", filters=["t/+"]) as sink,
        Link(broker.config, client_id="a", filters=[]) as link,
    ):
        wait_for(sink, Connected)
        wait_for(link, Connected)

        def work(number: int) -> None:
            for i in range(200):
                assert link.publish(f"t/{number}", i.to_bytes(2, "big"), qos=number % 2)
                sink.wake()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        got: dict[str, list[int]] = {}
        for event in messages(sink, 800):
            got.setdefault(event.topic, []).append(int.from_bytes(event.payload, "big"))
        for thread in threads:
            thread.join()
        assert got == {f"t/{number}": list(range(200)) for number in range(4)}
        assert eventually(lambda: link.pending() == 0)


def test_a_publisher_faster_than_the_network_waits_for_room(broker: Broker) -> None:
    with Proxy(broker.port) as proxy, Link(proxy.config, client_id="a", filters=[], outbox=1_000_000) as link:
        wait_for(link, Connected)
        proxy.pause()
        taken: list[bool] = []

        def work() -> None:
            while not taken or taken[-1]:
                taken.append(link.publish("t", bytes(100_000), qos=0))

        thread = threading.Thread(target=work)
        thread.start()
        assert eventually(lambda: link.pending() == 9)
        waiting: list[int] = []  # what the kernel still takes makes room for a moment
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            waiting.append(link.pending())
            time.sleep(0.005)
        assert max(waiting) == 9  # 100,025 bytes each: a tenth would be more than its megabyte
        before = len(taken)
        proxy.resume()
        assert eventually(lambda: len(taken) > before + 20)
        proxy.cut()
        thread.join(60)
        assert not thread.is_alive()  # the end of the connection ends the wait
        assert taken[-1] is False


@pytest.mark.parametrize(
    "answer",
    [
        b"\x20\x03\x00\x00\x05",
        b"\x20\x03\x00\x03\x00",
        b"\x20\x03\x00\x00\x00\x00\x00",
        b"\xff\xff\xff\xff\xff\xff",
    ],
)
def test_a_broker_that_talks_nonsense_ends_the_connection_and_not_the_link(answer: bytes) -> None:
    with Scripted(CONNACK5, answer, answer, CONNACK5) as broker, Link(broker.config, client_id="a", filters=[]) as link:
        assert wait_for(link, Disconnected).reason
        wait_for(link, Connected, 120)


def test_a_packet_of_256_megabytes_is_not_read() -> None:
    huge = CONNACK5 + b"\x30\xff\xff\xff\x7f" + bytes(3_000_000)
    with Scripted(CONNACK5, huge, CONNACK5) as broker, Link(broker.config, client_id="a", filters=[]) as link:
        wait_for(link, Connected)
        assert "packet of more than 4,000,000 bytes" in wait_for(link, Disconnected).reason
        wait_for(link, Connected, 120)


def test_a_broker_that_floods_before_it_confirms_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transport.session.MAX_EARLY", 100_000)
    message = b"\x30\xeb\x07\x00\x01t" + bytes(1000)
    with (
        Scripted(CONNACK5, CONNACK5 + message * 200) as broker,
        Link(broker.config, client_id="a", filters=["t"]) as link,
    ):
        assert "before it has confirmed" in wait_for(link, Disconnected).reason
