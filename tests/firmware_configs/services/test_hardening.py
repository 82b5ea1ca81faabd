"""The lines that all of our units share."""

from __future__ import annotations

import pytest

from firmware_configs.boards import board
from firmware_configs.broker.unit import broker_unit
from firmware_configs.kits.unit import unit
from firmware_configs.services.hardening import HARDENING

pytestmark = pytest.mark.light


def test_the_units_of_agent_and_broker_have_all_of_it() -> None:
    broker = broker_unit("a", program="p", conf="c", user="u", group="g")
    for text in (unit(board("rpi-4"), data="/srv/x"), broker):
        assert HARDENING in text
        settings = [line.partition("=")[0] for line in text.splitlines() if "=" in line]
        assert all(settings.count(name) == 1 for name in settings if name != "SystemCallFilter")
