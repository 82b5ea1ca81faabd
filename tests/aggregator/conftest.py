"""Fixtures of the aggregator's tests."""

from tests.brokers import broker, mosquitto  # noqa: F401
