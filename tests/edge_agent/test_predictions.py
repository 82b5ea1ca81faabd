"""Requests over MQTT: a child only while somebody asks, and bounds on what is asked."""

import json
import logging
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from edge_agent.predict.frames import MAX_REQUEST
from edge_agent.predictions import IDLE_S, WAITING, Predictions
from tests.edge_agent.predict.boards import images, leave_model
from tests.edge_agent.predict.http_calls import npy

pytestmark = pytest.mark.light


class Asked:
    """Predictions with a clock of the test's own."""

    def __init__(self, folder: Path, per_minute: int = 600) -> None:
        self.woken = threading.Event()
        self.predictions = Predictions(folder, per_minute=per_minute, wake=self.woken.set)
        self.now = 1000.0

    def ask(self, payload: bytes) -> None:
        self.predictions.ask(payload, self.now)

    def answers(self, count: int) -> list[dict]:
        found: list[dict] = []
        until = time.monotonic() + 120
        while len(found) < count:
            assert time.monotonic() < until, found
            self.woken.wait(0.2)
            self.woken.clear()
            found += [json.loads(answer) for answer in self.predictions.poll(self.now)]
        return found

    @property
    def child(self):
        return self.predictions._child


@pytest.fixture
def asked(tmp_path: Path):
    leave_model(tmp_path)
    made = Asked(tmp_path)
    yield made
    made.predictions.kill()


def test_requests_are_answered_in_order_and_the_child_ends_when_nobody_asks(asked: Asked) -> None:
    assert asked.child is None
    asked.ask(npy(images(2)))
    asked.ask(b"hello")
    first, second = asked.answers(2)
    assert [row["label"] for row in first["predictions"]] == ["ant", "bee"]
    assert "error" in second
    child = asked.child
    asked.now += IDLE_S - 1
    asked.predictions.poll(asked.now)
    assert asked.child is child
    asked.now += 2
    asked.predictions.poll(asked.now)
    assert asked.child is None
    assert child.wait(120) != 0
    assert not asked.predictions.busy


def test_a_child_that_dies_costs_one_request(asked: Asked, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("edgestill").propagate = True
    asked.ask(npy(images(1)))
    asked.answers(1)
    os.kill(asked.child.pid, signal.SIGSTOP)
    asked.ask(npy(images(2)))
    os.kill(asked.child.pid, signal.SIGKILL)
    asked.ask(npy(images(3)))
    (answer,) = asked.answers(1)
    assert len(answer["predictions"]) == 3
    assert "the child has ended over a request" in caplog.text


def test_a_child_that_hangs_is_replaced(asked: Asked, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("edgestill").propagate = True
    asked.ask(npy(images(1)))
    asked.answers(1)
    hanging = asked.child
    os.kill(hanging.pid, signal.SIGSTOP)
    asked.ask(npy(images(2)))
    asked.now += 61
    asked.predictions.poll(asked.now)
    assert hanging.poll() is not None
    asked.ask(npy(images(3)))
    assert len(asked.answers(1)[0]["predictions"]) == 3
    assert "no answer for 60 s" in caplog.text


def test_what_is_too_much_is_dropped_with_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("edgestill").propagate = True
    asked = Asked(tmp_path, per_minute=2)
    try:
        for payload in (b"", b"x" * (MAX_REQUEST + 1), b"a", b"b", b"c", b"d"):
            asked.ask(payload)
        assert len(asked.answers(2)) == 2
        asked.now += 31  # another token
        asked.ask(b"e")
        asked.ask(b"f")
        asked.answers(1)
        asked.now += 60
        asked.predictions.poll(asked.now)
    finally:
        asked.predictions.kill()
    assert [record.message.split(":")[1] for record in caplog.records] == [" 4 requests dropped", " 1 requests dropped"]


def test_few_requests_wait(asked: Asked) -> None:
    for _ in range(WAITING + 4):
        asked.ask(b"x")
    assert len(asked.answers(WAITING + 1)) == WAITING + 1
    assert asked.predictions.poll(asked.now) == []
