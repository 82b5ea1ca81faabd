"""What is admitted comes in turn, by sender; what is not is acknowledged, at the cost of a look at its topic."""

from __future__ import annotations

import pytest

from tests.brokers import Broker
from tests.transport.events import eventually, messages, wait_for
from transport.link import Connected, Link
from transport.reader import _look

pytestmark = pytest.mark.light


class Door:
    """Admits by the first level of the topic, except what is called `no`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def admit(self, topic: str, size: int) -> str | None:
        self.asked.append((topic, size))
        sender = topic.split("/")[0]
        return None if sender == "no" else sender


@pytest.mark.parametrize("qos", [0, 1])
def test_what_is_not_admitted_does_not_come_and_the_rest_does(broker: Broker, qos: int) -> None:
    door = Door()
    with (
        Link(broker.config, client_id="a", filters=["#"], admit=door.admit) as a,
        Link(broker.config, client_id="b", filters=[]) as b,
    ):
        wait_for(a, Connected)
        wait_for(b, Connected)
        for n in range(100):  # more than a broker lets wait for an acknowledgement
            assert b.publish(f"no/{n}", b"x" * 50, qos=qos)
        assert b.publish("yes/last", b"y" * 70_000, qos=qos)
        (message,) = messages(a, 1)
        assert (message.topic, message.payload) == ("yes/last", b"y" * 70_000)
        assert eventually(lambda: b.pending() == 0)
    assert [topic for topic, _ in door.asked] == [*(f"no/{n}" for n in range(100)), "yes/last"]
    assert all(50 <= size <= 60 for topic, size in door.asked if topic.startswith("no"))


def test_a_sender_has_at_most_32_messages_waiting_and_takes_turns_with_others(broker: Broker) -> None:
    with (
        Link(broker.config, client_id="a", filters=["#"], admit=Door().admit) as a,
        Link(broker.config, client_id="b", filters=[]) as b,
    ):
        wait_for(a, Connected)
        wait_for(b, Connected)
        for n in range(100):
            assert b.publish(f"loud/{n}", b"x")
        assert b.publish("shy/0", b"x")
        assert eventually(lambda: b.pending() == 0)
        assert eventually(lambda: a._inbox._lanes.keys() == {"loud", "shy"})
        assert [m.topic for m in messages(a, 3)] == ["loud/0", "shy/0", "loud/1"]
        assert dict(a.dropped()) == {"loud": 68}


def test_many_small_messages_and_a_large_one_come_whole_and_in_order(broker: Broker) -> None:
    sent = [(f"t/{n}", bytes([n % 256]) * (n % 300)) for n in range(600)] + [("t/large", bytes(range(256)) * 4000)]
    with Link(broker.config, client_id="a", filters=["t/+"]) as a, Link(broker.config, client_id="b", filters=[]) as b:
        wait_for(a, Connected)
        wait_for(b, Connected)
        for topic, payload in sent:
            assert b.publish(topic, payload)
        assert [(m.topic, m.payload) for m in messages(a, len(sent))] == sent


@pytest.mark.parametrize(
    ("command", "body", "found"),
    [
        (0x30, b"\0\x03a/bxyz", ("a/b", None, 3)),
        (0x32, b"\0\x03a/b\x01\x02xyz", ("a/b", 258, 5)),
        (0x31, b"\0\x02\xff\xfex", (None, None, 0)),
        (0x30, b"", ("", None, 0)),
        (0x32, b"\xff\xffa", ("a", 0, 0)),
    ],
)
def test_a_packet_is_looked_at_without_being_taken_apart(command: int, body: bytes, found: tuple) -> None:
    assert _look(command, body) == found
