"""The unit of a fleet's own Mosquitto is one that systemd takes, and has few rights."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firmware_configs.broker.unit import broker_unit
from tests.firmware_configs.kits.test_unit import analyze, needs_systemd, written

pytestmark = pytest.mark.light


@needs_systemd
def test_systemd_takes_the_unit_and_finds_it_hardened(tmp_path: Path) -> None:
    text = broker_unit("garden", program="/bin/true", conf="/etc/mosquitto/a.conf", user="daemon", group="daemon")
    path = written(tmp_path, "edgestill-broker-garden.service", text)
    verified = analyze("verify", path)
    assert (verified.returncode, verified.stderr) == (0, "")
    score = re.search(r"Overall exposure level for \S+: ([\d.]+)", analyze("security", "--offline=true", path).stdout)
    assert score
    assert float(score[1]) < 2  # measured: 1.3
    assert "ExecReload=/bin/kill -HUP $MAINPID\n" in text
