"""The aggregator's unit is one that systemd takes, and has few rights."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from firmware_configs.services.aggregator_unit import aggregator_unit, unit_name
from tests.firmware_configs.kits.test_unit import analyze, needs_systemd, written

pytestmark = pytest.mark.light


def a_unit(**changes: Any) -> str:
    given: dict[str, Any] = {
        "program": Path("/bin/true"),
        "config": Path("/srv/garden/fleet.toml"),
        "state": Path("/srv/garden/state"),
        "reads": [Path("/srv/garden/aggregator.key")],
        "user": "daemon",
        "group": "daemon",
    }
    return aggregator_unit("garden", **{**given, **changes})


@needs_systemd
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"accelerator": True},
        {"state": Path("/var/lib/edgestill/garden"), "config": Path("/home/me/fleet.toml")},
        {
            "config": Path("/srv/my fleet/100%/$HOME.toml"),
            "state": Path("/srv/my fleet/state"),
            "writes": [Path("/a b")],
        },
    ],
)
def test_systemd_takes_the_unit_and_finds_it_hardened(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = written(tmp_path, unit_name("garden"), a_unit(**changes))
    verified = analyze("verify", path)
    assert (verified.returncode, verified.stderr) == (0, "")
    score = re.search(r"Overall exposure level for \S+: ([\d.]+)", analyze("security", "--offline=true", path).stdout)
    assert score
    assert float(score[1]) < 2  # measured: 1.5, and 1.7 with the devices of a GPU


def test_it_writes_its_state_folder_and_what_it_was_told() -> None:
    text = a_unit(writes=[Path("/srv/runs")])
    assert re.findall(r"^(?:ReadWritePaths|StateDirectory)=.*$", text, re.MULTILINE) == [
        "ReadWritePaths=/srv/garden/state",
        "ReadWritePaths=/srv/runs",
    ]
    assert "StateDirectory=edgestill/garden\nStateDirectoryMode=0700\n" in a_unit(
        state=Path("/var/lib/edgestill/garden")
    )


@pytest.mark.parametrize(
    ("changes", "home"),
    [
        ({}, "yes"),
        ({"config": Path("/home/me/fleet.toml")}, "read-only"),
        ({"program": Path("/root/venv/bin/edgestill")}, "read-only"),
        ({"reads": [Path("/home/me/key")]}, "read-only"),
        ({"config": Path("/homes/fleet.toml")}, "yes"),
    ],
)
def test_homes_are_hidden_unless_something_is_read_there(changes: dict[str, Any], home: str) -> None:
    assert f"\nProtectHome={home}\n" in a_unit(**changes)


def test_a_machine_with_a_gpu_shows_its_devices() -> None:
    assert "PrivateDevices=yes" in a_unit()
    assert "PrivateDevices" not in a_unit(accelerator=True)
    assert "SupplementaryGroups=video render\n" in a_unit(accelerator=True)
