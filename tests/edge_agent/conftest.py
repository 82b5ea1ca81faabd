"""Brokers for the tests of the agent."""

from tests.brokers import broker, mosquitto  # noqa: F401
