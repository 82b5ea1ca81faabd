"""The aggregator's own message finds what the broker does with retained ones."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from aggregator.intake.broker_check import BrokerCheck, admitting
from aggregator.intake.retained_states import RetainedStates
from tests.aggregator.running import fleet
from tests.aggregator.scripted import FLEET, key_of
from tests.brokers import Broker
from tests.transport.events import eventually, wait_for
from transport.events import FRONT
from transport.link import Connected, Link
from transport.retained_check import BY_NAME_S, FIRST_S, PATTERN_S, Delivery
from wire.codec import encode_message
from wire.envelope import seal
from wire.messages import About, State
from wire.topics import DeviceTopic, probe_topic

OWN = probe_topic("garden")


class Connection:
    """A link that notes what is asked of it."""

    def __init__(self) -> None:
        self.published: list[tuple[str, bytes, bool]] = []
        self.open: list[str] = []

    def publish(self, topic: str, payload: bytes, *, retain: bool) -> bool:
        self.published.append((topic, payload, retain))
        return True

    def subscribe(self, topics: Sequence[str]) -> bool:
        self.open += topics
        return True

    def unsubscribe(self, topics: Sequence[str]) -> bool:
        for topic in topics:
            self.open.remove(topic)
        return True


def connect(check: BrokerCheck, now: float, *, answered: str) -> None:
    """One connection, to a broker that sends the retained message to subscriptions `answered` by it."""
    link = check._link
    assert isinstance(link, Connection)
    check.connected(now)
    for later in (FIRST_S, FIRST_S + PATTERN_S, FIRST_S + PATTERN_S + BY_NAME_S):
        check.poll(now + later)
        if answered in link.open:
            check.heard(OWN, True, now + later)
            check.poll(now + later)
            return


@pytest.fixture
def link() -> Connection:
    return Connection()


@pytest.fixture
def states(link: Connection) -> RetainedStates:
    return RetainedStates("garden", subscribe=link.subscribe, unsubscribe=link.unsubscribe)


@pytest.fixture
def check(link: Connection, states: RetainedStates) -> BrokerCheck:
    return BrokerCheck("garden", link, states, lambda: {"pi-2", "pi-1"})  # type: ignore[arg-type]


def test_a_full_broker_is_no_line_and_nothing_stays_there(
    check: BrokerCheck, link: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "edgestill.aggregator"):
        connect(check, 0.0, answered="edgestill/1/garden/+/probe")
    assert check.delivery is Delivery.ALL
    assert caplog.records == []
    assert link.open == []
    assert link.published == [(OWN, b"?", True), (OWN, b"", True)]


def test_without_wildcards_all_that_devices_announced_is_fetched_and_one_line_says_so(
    check: BrokerCheck, states: RetainedStates, link: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "edgestill.aggregator"):
        for start in (0.0, 100.0):
            connect(check, start, answered=OWN)
            assert check.delivery is Delivery.BY_NAME
            states.ask((), start + 50.0)
            leaves = ("state", "about", "reported", "upgraded")
            assert link.open == [
                f"edgestill/1/garden/{device}/{leaf}" for device in ("pi-1", "pi-2") for leaf in leaves
            ]
            states.ask((), start + 60.0)
            assert link.open == []
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["the broker sends retained messages only to subscriptions without wildcards, as RabbitMQ does"]


def test_a_broker_without_retained_messages_is_a_warning(check: BrokerCheck, caplog: pytest.LogCaptureFixture) -> None:
    connect(check, 0.0, answered="nothing")
    assert check.delivery is Delivery.NONE
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "to no subscription; jobs, models and settings need that" in record.getMessage()


def test_a_lost_connection_ends_it(check: BrokerCheck, link: Connection) -> None:
    check.connected(0.0)
    check.lost()
    check.poll(1e9)
    assert link.open == []
    assert check.delivery is None


def test_its_message_passes_whatever_strangers_have_used_up() -> None:
    admit = admitting("garden", lambda topic, size: None)
    assert admit(OWN, 1) == FRONT
    assert admit("edgestill/1/garden/pi-1/state", 1) is None


def test_what_a_device_announced_while_the_aggregator_was_away_is_read_on_every_broker(
    tmp_path: Path, broker: Broker, started: Path
) -> None:
    """The device is new, silent since, and not fetched as one that was online before."""
    about = About(board="pi", prototype="mlp:fp32", precision="fp32", label_counts=(1, 1, 1))
    with Link(broker.config, client_id="pi-1", filters=[]) as device:
        wait_for(device, Connected)
        for kind, message in (("state", State(status="online", session=1)), ("about", about)):
            sealed = seal(encode_message(message), key=key_of("pi-1"), kind=kind, sender="pi-1", fleet=FLEET)
            assert device.publish(str(DeviceTopic(FLEET, "pi-1", kind)), sealed, retain=True)
        assert eventually(lambda: device.pending() == 0)
        with fleet(tmp_path, broker, started) as service:
            service.start()
            service.until(
                lambda journal: ("pi-1", "online", "pi") in {(d.id, d.status, d.board) for d in journal.devices()}
            )
            assert service.end() == 0
    line = "the broker sends retained messages only to subscriptions without wildcards, as RabbitMQ does"
    assert service.log.read_text().count(line) == ("rabbitmq" in str(type(broker)).lower())
