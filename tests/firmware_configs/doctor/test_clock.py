"""A clock in the past is named as such."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from edge_agent.config import read_agent_config
from firmware_configs.doctor.clock import check_clock
from firmware_configs.doctor.findings import Finding
from firmware_configs.provision import provision
from tests.firmware_configs.fleets import manifest

pytestmark = pytest.mark.light


def checked(tmp_path: Path, ahead: timedelta) -> list[Finding]:
    made = manifest(tmp_path)
    provision(made)
    folder = made.out / "pi-01"
    return list(check_clock(read_agent_config(folder / "agent.toml"), folder, datetime.now(timezone.utc) + ahead))


@pytest.mark.parametrize("ahead", [timedelta(), timedelta(minutes=-5), timedelta(days=400)])
def test_nothing_is_said_of_a_clock_that_may_be_right(tmp_path: Path, ahead: timedelta) -> None:
    assert checked(tmp_path, ahead) == []


def test_before_the_certificates_are_valid_the_clock_is_a_failure(tmp_path: Path) -> None:
    (found,) = checked(tmp_path, timedelta(days=-700))
    assert (found.level, found.what) == ("failure", "clock")
    assert "the certificates are valid from" in found.said
    assert found.said.endswith("; connect the board to a time server, or set it with `sudo date --set`")


def test_before_the_kit_was_made_the_clock_is_a_warning(tmp_path: Path) -> None:
    (found,) = checked(tmp_path, timedelta(hours=-3))
    assert (found.level, "but the kit was made at" in found.said) == ("warning", True)


def test_an_agent_without_a_kit_is_judged_by_its_certificates(tmp_path: Path) -> None:
    made = manifest(tmp_path)
    provision(made)
    config = read_agent_config(made.out / "pi-01" / "agent.toml")
    assert list(check_clock(config, tmp_path / "elsewhere")) == []
    (found,) = check_clock(config, tmp_path / "elsewhere", datetime(2001, 1, 1, tzinfo=timezone.utc))
    assert found.said.startswith("2001-01-01 00:00 UTC, ")
