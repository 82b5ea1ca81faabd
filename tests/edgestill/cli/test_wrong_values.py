"""A value of the wrong kind, shape or size under any key of any config file is one line."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from aggregator.config.tables import TABLES as FLEET
from core.errors import EdgestillError
from edge_agent.config import TABLES as AGENT
from edgestill.cli.service.config import _resolve
from firmware_configs.manifest.tables import GroupConfig, ProvisionConfig
from fleet.simulation.settings.table import SETTINGS, read_file
from fleet.sweep.grid import read_sweep
from tests.firmware_configs.fleets import FLEET as FLEET_TOML
from tests.firmware_configs.fleets import PI
from transport.config import BrokerTable
from wire.keys import generate_key, save_private_key

pytestmark = pytest.mark.light
AGENT_TOML = '[agent]\nfleet = "f"\ndevice = "pi-1"\nstate_dir = "state"\n'
WRONG = {
    "list": "[1, [2], {a = 3}]",
    "table": "{a = {b = 1}}",
    "deep": "{" + "a = {" * 80 + "}" * 80 + "}",
    "long": '"' + "x" * 5000 + '"',
    "hex": "0x" + "f" * 5000,
    "digits": "9" * 5000,
    "control": '"\\u001b[31m\\u0000\\n"',
    "date": "2026-11-18T04:00:00Z",
    "float": "-1e400",
}


def keys() -> Iterator[tuple[str, str, str]]:
    broker = BrokerTable.__struct_fields__
    tables: dict[str, Iterable[str]] = {**FLEET, "broker": broker, "devices": ["keys_dir"]}
    for table, known in {**tables, "provision": ProvisionConfig.__struct_fields__}.items():
        yield from (("fleet", table, key) for key in known)
    yield from (("group", "group", key) for key in GroupConfig.__struct_fields__)
    for table, known in {**AGENT, "broker": broker}.items():
        yield from (("agent", table, key) for key in known)


def written(kind: str, table: str, key: str, value: str) -> str:
    """The file, valid but for one value."""
    text = {"fleet": FLEET_TOML + PI, "group": FLEET_TOML + PI, "agent": AGENT_TOML}[kind]
    header = "[[group]]" if kind == "group" else f"[{table}]"
    lines = [line for line in text.splitlines() if not line.startswith(f"{key} =")]
    if header not in lines:
        lines.append(header)
    lines.insert(lines.index(header) + 1, f"{key} = {value}")
    return "\n".join(lines) + "\n"


def told(use: Callable[[], object]) -> bool:
    """Whether it is right, or refused in words; a key may take the value, such as a long name."""
    try:
        use()
    except EdgestillError:
        return True
    except Exception:
        return False
    return True


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_value_is_one_line(wrong: str, tmp_path: Path) -> None:
    save_private_key(generate_key(), tmp_path / "aggregator.key")
    path = tmp_path / "x.toml"
    for kind, table, key in keys():
        path.write_text(written(kind, table, key, WRONG[wrong]))
        assert told(lambda: _resolve(path, [])), f"{kind}.toml [{table}] {key}"


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_value_of_a_sweep_is_one_line(wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    for name in SETTINGS:
        for text in (f"[simulate]\n{name} = {WRONG[wrong]}", f"[grid]\n{name} = {WRONG[wrong]}"):
            path.write_text(text)
            assert told(lambda: read_sweep(path)), text[:40]
            if text.startswith("[simulate]"):
                assert told(lambda: read_file(path)), text[:40]
