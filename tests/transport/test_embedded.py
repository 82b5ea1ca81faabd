"""The embedded broker by itself."""

import logging
import socket
import subprocess
import sys
import threading

import pytest

from core.errors import ConfigError, TransportError
from tests.transport.events import connected, messages, wait_for
from transport.config import BrokerConfig
from transport.embedded import EmbeddedBroker
from transport.link import Connected, Link, Received

pytest.importorskip("amqtt", reason="*** NO AMQTT IN THIS ENVIRONMENT: THE EMBEDDED BROKER IS NOT TESTED ***")


def test_it_finds_a_free_port_and_leaves_no_thread() -> None:
    threads = threading.active_count()
    with EmbeddedBroker() as first, EmbeddedBroker() as second:
        assert 0 < first.port != second.port > 0
    assert threading.active_count() == threads
    first.stop()


def test_it_starts_again_on_the_port_that_was_asked_for_and_has_forgotten_what_was_retained() -> None:
    broker = EmbeddedBroker()
    broker.start()
    port = broker.port
    link = connected(Link(BrokerConfig(port=port), client_id="a", filters=["t"]))
    assert link.publish("t", b"x", retain=True)
    messages(link, 1)
    link.stop()
    broker.stop()
    with EmbeddedBroker(port) as again, Link(BrokerConfig(port=port), client_id="a", filters=["t"]) as link:
        assert again.port == port
        wait_for(link, Connected)
        assert link.next_event(0.2) is None


def test_it_listens_to_this_machine_only() -> None:
    for host in ("0.0.0.0", "192.168.1.5", "", "::"):
        with pytest.raises(ConfigError, match="loopback only"):
            EmbeddedBroker(host=host)
    with EmbeddedBroker(host="localhost") as broker:
        socket.create_connection(("127.0.0.1", broker.port), timeout=2).close()
        for line in open("/proc/net/tcp").read().splitlines()[1:]:  # noqa: SIM115
            address, port = line.split()[1].split(":")
            if int(port, 16) == broker.port and line.split()[3] == "0A":
                assert address == "0100007F"


def test_a_taken_port_is_an_error_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(TransportError) as caught:
            EmbeddedBroker(port).start()
    assert str(caught.value) == f"embedded broker: cannot listen on 127.0.0.1:{port}: address already in use"
    with pytest.raises(ConfigError, match="port 70000"):
        EmbeddedBroker(70000)


def test_clients_that_break_off_or_talk_nonsense_disturb_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker() as broker, caplog.at_level(logging.WARNING):
        with Link(BrokerConfig(port=broker.port), client_id="a", filters=["t"]) as link:
            wait_for(link, Connected)
            for nonsense in (b"", b"\xff" * 10, b"GET / HTTP/1.1\r\n\r\n", b"\x10\x80\x80\x80\x80\x80", b"\x00\x00"):
                with socket.create_connection(("127.0.0.1", broker.port)) as sock:
                    sock.sendall(nonsense)
            assert link.publish("t", b"x")
            assert wait_for(link, Received).payload == b"x"
        assert caplog.text == ""


def test_a_missing_amqtt_is_told_with_what_to_install() -> None:
    hidden = "import sys; sys.modules['amqtt'] = None"
    code = f"{hidden}; from transport.embedded import EmbeddedBroker; EmbeddedBroker().start()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.endswith("the embedded broker needs amqtt; pip install 'edgestill[aggregator]'\n")


def test_a_client_is_greeted_with_what_it_subscribed_to_and_nothing_else() -> None:
    with (
        EmbeddedBroker() as broker,
        Link(BrokerConfig(port=broker.port), client_id="a", filters=["others/#", "mine"]) as other,
    ):
        wait_for(other, Connected)
        assert other.publish("others/secret", b"x", retain=True)
        assert other.publish("mine", b"y", retain=True)
        messages(other, 2)
        with Link(BrokerConfig(port=broker.port), client_id="b", filters=["mine"]) as link:
            wait_for(link, Connected)
            assert wait_for(link, Received).topic == "mine"
            assert link.next_event(0.3) is None
