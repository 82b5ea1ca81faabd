"""Real brokers for the end-to-end tests."""

from tests.brokers import broker  # noqa: F401
