"""What an agent tells of itself, as it is published."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.settings import replace
from edge_agent.config import AgentConfig, read_agent_config
from edge_agent.messages import Mail
from edge_agent.reports import Reports
from edge_agent.samples.survey import Survey
from tests.edge_agent.scripted import DEVICE, FLEET, write_device
from wire.codec import decode_message
from wire.envelope import open_envelope
from wire.keys import generate_key
from wire.messages import COMPUTE, About, DataState, Metrics, State

KEY = generate_key()


class Link:
    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes, dict]] = []

    def publish(self, topic: str, payload: bytes, **how: object) -> bool:
        self.sent.append((topic.rsplit("/", 1)[1], payload, how))
        return True


def read(payload: bytes, kind: str, message: type) -> object:
    opened = open_envelope(
        payload, public_key=KEY.public_key(), fleet=FLEET, sender=DEVICE, kinds=(kind,), max_bytes=2**16
    )
    return decode_message(opened.payload, message)


@pytest.fixture
def config(tmp_path: Path) -> AgentConfig:
    return read_agent_config(write_device(tmp_path / "pi", 1))


@pytest.fixture
def link() -> Link:
    return Link()


@pytest.fixture
def reports(link: Link) -> Reports:
    mail = Mail(FLEET, DEVICE, key=KEY, aggregator=KEY.public_key(), wall_clock=lambda: 0.0)
    return Reports(mail, link, session=5)  # type: ignore[arg-type]


def test_it_announces_itself_with_its_label_counts_unless_they_are_noised(
    reports: Reports, link: Link, config: AgentConfig
) -> None:
    noised = replace(config.data, count_epsilon=0.5)
    counted = Survey(path="x", kind="npz", least=1, training=7, label_counts=(3, 4))
    assert reports.samples(counted, noised)
    reports.announce(replace(config, data=noised))
    assert not reports.samples(counted, noised)  # nothing new
    (state, sealed, how), (about, told, _) = link.sent
    assert (state, about, how) == ("state", "about", {"retain": True})
    assert read(sealed, "state", State) == State(status="online", session=5)
    assert read(told, "about", About).label_counts == ()
    assert reports.samples(counted, config.data)
    assert not reports.samples(None, config.data)  # not counted yet: what is known stays
    reports.announce(config)
    assert read(link.sent[-1][1], "about", About).label_counts == (3, 4)


def test_what_it_lacks_is_announced_in_an_envelope_of_version_3_and_logged_once(
    reports: Reports, link: Link, config: AgentConfig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    facts = {"path": "/p", "kind": "folder", "least": 3}
    waits = Survey(
        waiting="waiting for samples in /p: 1 of 3", rejected_count=1, rejected={"a.png": "cut short"}, **facts
    )
    for _ in range(2):
        reports.samples(waits, config.data)
        reports.announce(config)
    assert link.sent[-1][1][0] == 3
    told = read(link.sent[-1][1], "about", About).data
    assert told == DataState(waiting="waiting for samples in /p: 1 of 3", rejected=1, reason="a.png: cut short")
    assert reports.samples(
        Survey(training=3, label_counts=(3,), lacks=("dog",), unknown={"x": 2}, **facts), config.data
    )
    reports.announce(config)
    assert read(link.sent[-1][1], "about", About).data == DataState(lacks=("dog",), unknown={"x": 2})
    assert [record.getMessage() for record in caplog.records] == [
        "waiting for samples in /p: 1 of 3",
        "a.png: set aside: cut short",
        "3 samples to train on, 0 held out",
        "class 'x' is not one of the fleet's: 2 samples are set aside",
        "no sample of 'dog'",
    ]
    reports.samples(Survey(training=3, label_counts=(3,), **facts), config.data)
    reports.announce(config)
    assert link.sent[-1][1][0] == 1  # which older aggregators read


def test_the_compute_device_is_told_once_it_is_known(reports: Reports, link: Link, config: AgentConfig) -> None:
    reports.announce(config)
    assert COMPUTE not in read(link.sent[-1][1], "about", About).versions
    reports.computes_on = "cuda:0 (Orin)"
    reports.announce(config)
    assert read(link.sent[-1][1], "about", About).versions[COMPUTE] == "cuda:0 (Orin)"


def test_a_late_will_is_contradicted_and_a_copy_of_the_folder_told(
    reports: Reports, link: Link, caplog: pytest.LogCaptureFixture
) -> None:
    reports.contradict(State(status="online", session=5))
    assert link.sent == []
    reports.contradict(State(status="lost", session=4))
    assert [name for name, _, _ in link.sent] == ["state"]
    reports.contradict(State(status="lost", session=6))
    assert len(link.sent) == 1
    assert "session 6 of this device is somewhere else" in caplog.text


def test_metrics_tell_the_bytes_so_far_and_expire(reports: Reports, link: Link) -> None:
    reports.bytes_up, reports.bytes_down = 10, 20
    reports.metrics(3, {"train_loss": 0.5}, problem="too hot")
    ((name, payload, how),) = link.sent
    assert (name, how) == ("metrics", {"qos": 0, "expiry_s": 600})
    told = read(payload, "metrics", Metrics)
    assert (told.round, told.train_loss, told.bytes_up, told.bytes_down, told.problem) == (3, 0.5, 10, 20, "too hot")
