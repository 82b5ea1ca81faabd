"""Brokers for the tests of the way to them."""

from tests.brokers import broker, mosquitto  # noqa: F401
