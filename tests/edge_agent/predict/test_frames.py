"""Frames between the agent and its predicting process."""

import pytest

from edge_agent.predict.frames import LENGTH, MAX_ANSWER, MAX_REQUEST, frame
from firmware_configs.broker.mosquitto import MAX_PACKET

pytestmark = pytest.mark.light


def test_a_frame_tells_its_length() -> None:
    data = frame(b"abc")
    assert (LENGTH.unpack(data[:4])[0], data[4:]) == (3, b"abc")


def test_requests_and_answers_fit_the_packets_of_generated_brokers() -> None:
    assert max(MAX_REQUEST, MAX_ANSWER) + 1000 < MAX_PACKET
