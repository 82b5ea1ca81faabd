"""A client before it connects: what it will say to the broker, and the size of its packets."""

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from core.errors import TransportError
from transport.client import IN_FLIGHT, OVERHEAD, V5, V311, Identity, check_size, new_client, with_expiry
from transport.config import BrokerConfig
from transport.reader import Reader

pytestmark = pytest.mark.light
IDENTITY = Identity("pi-07", ("t/#",), ("t/state", b"lost"))


def client(level: MQTTProtocolVersion, **broker: str) -> Reader:
    return new_client(BrokerConfig(**broker), level, IDENTITY, IN_FLIGHT, [].append)


def test_a_packet_is_measured_with_its_topic_in_bytes() -> None:
    assert check_size("ü", b"123") == OVERHEAD + 2 + 3
    assert check_size("t", bytes(10), limit=OVERHEAD + 11) == OVERHEAD + 11
    with pytest.raises(TransportError, match=f"'t': a packet of {OVERHEAD + 12} bytes, the broker takes .*send chunks"):
        check_size("t", bytes(11), limit=OVERHEAD + 11)


def test_the_overhead_covers_the_longest_publish_packet() -> None:
    # type, 4 of remaining length, 2 of the topic's length, 2 of the number, 1 + 5 of properties with an expiry
    assert OVERHEAD >= 1 + 4 + 2 + 2 + 1 + 5


@pytest.mark.parametrize("level", [V5, V311])
def test_the_will_is_retained_and_acknowledged_and_paho_does_not_reconnect_by_itself(
    level: MQTTProtocolVersion,
) -> None:
    made = client(level, username="pi", password="secret")
    assert (made._will_topic, made._will_payload, made._will_qos, made._will_retain) == (b"t/state", b"lost", 1, True)
    assert (made.username, made.password) == ("pi", "secret")
    assert made._reconnect_on_failure is False
    assert made.protocol == level
    assert made.max_inflight_messages == IN_FLIGHT


def test_only_errors_of_paho_are_passed_on() -> None:
    errors: list[str] = []
    logger = new_client(BrokerConfig(), V5, IDENTITY, IN_FLIGHT, errors.append).logger
    assert logger is not None
    logger.debug("Sending PINGREQ")
    logger.warning("odd")
    logger.error("failed in %s", "loop")
    assert errors == ["failed in loop"]


def test_messages_expire_in_mqtt_5_only() -> None:
    properties = with_expiry(client(V5), 60)
    assert properties is not None
    assert properties.MessageExpiryInterval == 60
    assert with_expiry(client(V5), None) is None
    assert with_expiry(client(V311), 60) is None
