"""What MQTT 5 adds, where the broker offers it; Mosquitto does."""

import logging
from pathlib import Path

import pytest

from core.errors import TransportError
from core.settings import replace
from tests.brokers import DEFAULTS_2_1, MOSQUITTO, Mosquitto, mosquitto_version
from tests.transport.events import connected, eventually, messages, retained, wait_for
from tests.transport.scripted import CONNACK5, Scripted
from transport.link import Connected, Disconnected, Link, Received

pytestmark = [pytest.mark.light, pytest.mark.broker]


def test_a_message_expires(mosquitto: Mosquitto) -> None:
    with Link(mosquitto.config, client_id="a", filters=[]) as link:
        wait_for(link, Connected)
        assert link.publish("t/short", b"1", retain=True, expiry_s=1)
        assert link.publish("t/long", b"2", retain=True, expiry_s=60)
        assert eventually(lambda: link.pending() == 0)
    assert eventually(lambda: retained(mosquitto.config, "t/+") == [Received("t/long", b"2", True)])


def test_where_messages_cannot_expire_the_wish_is_ignored(mosquitto: Mosquitto) -> None:
    link = connected(Link(replace(mosquitto.config, protocol="3.1.1"), client_id="a", filters=["t"]))
    assert link.publish("t", b"1", expiry_s=1)
    assert messages(link, 1)[0].payload == b"1"
    link.stop()


def test_the_brokers_packet_limit_is_kept_without_being_told(tmp_path: Path) -> None:
    with (
        Mosquitto(tmp_path / "m", ["max_packet_size 50000"]) as m,
        Link(m.config, client_id="a", filters=["t"]) as link,
    ):
        wait_for(link, Connected)
        with pytest.raises(TransportError, match="the broker takes 50000; send chunks"):
            link.publish("t", bytes(50_000))
        assert link.publish("t", bytes(49_975))
        assert len(messages(link, 1)[0].payload) == 49_975
        assert link.connected


def test_the_brokers_receive_maximum_is_kept(tmp_path: Path) -> None:
    with (
        Mosquitto(tmp_path / "m", [*DEFAULTS_2_1, "max_inflight_messages 3"]) as m,
        Link(m.config, client_id="a", filters=["t"]) as link,
    ):
        assert link.next_event(60) == Connected()
        assert link._settings.in_flight == 3
        for number in range(300):
            assert link.publish("t", bytes([number % 256]))
        assert [m.payload[0] for m in messages(link, 300)] == [n % 256 for n in range(300)]
        assert link.connected


def test_a_client_that_is_told_to_be_a_twin_steps_back() -> None:
    taken_over = b"\xe0\x02\x8e\x00"
    with Scripted(CONNACK5, CONNACK5 + taken_over) as broker, Link(broker.config, client_id="t", filters=[]) as link:
        wait_for(link, Connected)
        reason = wait_for(link, Disconnected).reason
        assert reason == "the broker says: Session taken over; another client uses our id"
        assert link.next_event(1.5) is None
        assert len(broker.connections) == 2  # the probe, and the one that was taken over


@pytest.mark.skipif(MOSQUITTO is not None and mosquitto_version() >= (2, 1), reason="Mosquitto 2.1 tells them")
def test_twins_that_are_not_told_are_warned_and_come_back_slowly(
    mosquitto: Mosquitto, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING, "edgestill.transport"),
        Link(mosquitto.config, client_id="twin", filters=[]) as first,
        Link(mosquitto.config, client_id="twin", filters=[]) as second,
    ):
        warned = wait_for(first, Disconnected, where=lambda e: "does another client use the id 'twin'?" in e.reason)
        assert warned.reason.startswith("the broker closed the connection")
        assert second.next_event(0) is not None
    delays = [record.args[-1] for record in caplog.records if "does another client" in record.getMessage()]
    assert min(delays) >= 0.5


def test_a_forgotten_session_leaves_nothing_at_the_broker(mosquitto: Mosquitto) -> None:
    link = connected(Link(mosquitto.config, client_id="a", filters=["t"]))
    link.stop()
    with Link(mosquitto.config, client_id="b", filters=[]) as other:
        wait_for(other, Connected)
        assert other.publish("t", b"while away")
        assert eventually(lambda: other.pending() == 0)
    again = Link(mosquitto.config, client_id="a", filters=["t"])
    with again:
        wait_for(again, Connected)
        assert again.next_event(0.3) is None


def test_a_message_that_the_broker_refuses_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    acl = tmp_path / "acl"
    acl.write_text("topic readwrite open/#\n")
    with (
        Mosquitto(tmp_path / "m", [*DEFAULTS_2_1, f"acl_file {acl}"]) as m,
        Link(m.config, client_id="a", filters=["open/#"]) as link,
        caplog.at_level(logging.WARNING, "edgestill.transport"),
    ):
        wait_for(link, Connected)
        assert link.publish("closed/x", b"1")
        assert link.publish("open/x", b"2")
        assert messages(link, 1)[0].payload == b"2"
        assert eventually(lambda: link.pending() == 0)
        assert (
            "Not authorized; if its access list is of an older edgestill, run `edgestill broker install`" in caplog.text
        )


@pytest.mark.parametrize(
    ("protocol", "answers"),
    [
        ("5", [CONNACK5, CONNACK5 + b"\x90\x05\x00\x01\x00\x01\x87"]),
        ("3.1.1", [b"\x20\x02\x00\x00\x90\x04\x00\x01\x01\x80"]),
    ],
)
def test_a_subscription_that_the_broker_refuses_is_a_reason(protocol: str, answers: list[bytes]) -> None:
    with Scripted(*answers) as broker:
        config = replace(broker.config, protocol=protocol)
        with Link(config, client_id="a", filters=["open/#", "closed/#"]) as link:
            event = link.next_event(60)
            assert event == Disconnected("the broker refuses to subscribe us to 'closed/#'; fix its access list")
            assert not link.publish("t", b"x")
