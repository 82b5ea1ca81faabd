"""The agent.toml of a kit has the tables of its device, whatever is in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmware_configs.kits.agent_toml import COMMENT, agent_toml
from tests.firmware_configs.fleets import manifest

try:
    import tomllib
except ModuleNotFoundError:  # before Python 3.11
    import tomli as tomllib  # type: ignore[no-redef]

pytestmark = pytest.mark.light


def test_the_tables_of_every_device_come_back_as_they_were(tmp_path: Path) -> None:
    for device in manifest(tmp_path).devices:
        text = agent_toml(device.tables)
        assert tomllib.loads(text) == {name: dict(table) for name, table in device.tables.items() if table}


def test_an_empty_table_is_omitted_and_the_first_line_says_where_to_change_it() -> None:
    text = agent_toml({"agent": {"device": "pi-07"}, "limits": {}})
    assert tomllib.loads(text) == {"agent": {"device": "pi-07"}}
    assert text.splitlines()[0] == f"# {COMMENT}"


def test_what_a_user_has_written_is_quoted() -> None:
    odd = {"agent": {"device": "pi-07", "state": 'a "quoted"\\path\n[log]'}}
    assert tomllib.loads(agent_toml(odd)) == odd
