"""Every number that somebody can set has a range: outside of it there is one line, and nothing is begun."""

import re
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer

from aggregator.config.tables import TABLES as FLEET
from core.errors import ConfigError
from core.settings import Field, checked, describe, value_of
from edge_agent.config import TABLES as AGENT
from edgestill.cli.main import app, main
from firmware_configs.boards import Board
from firmware_configs.manifest.tables import GroupConfig, ProvisionConfig
from fleet.virtual.hardware import Hardware
from transport.config import BrokerTable

INSANE = (str(10**20), "1e308", "nan", "inf", "-inf", "9" * 5000)
#: How a message calls an option, where it is not by its name.
CALLED = {"--lr": "learning rate", "--dropout": "drop-out", "--input": "shape"}
#: What a command needs beside the number; those that would run say --dry-run, or name what is not there.
NEEDED: Mapping[str, tuple[str, ...]] = {
    "simulate": ("--dry-run", "--virtual-clock", "--quiet"),
    "sweep": ("none.toml", "--dry-run"),
    "report": ("none",),
    "broker": ("--host", "nowhere"),
    "device set": ("pi-01", "log.level=info", "--config", "none.toml"),
    "device log": ("pi-01", "--config", "none.toml"),
    "device update": ("pi-01", "--config", "none.toml"),
    "model prune": ("--config", "none.toml"),
    "round list": ("--config", "none.toml"),
    "push": ("none", "root@nowhere"),
    "data show": ("digits", "--json"),
    "prototype show": ("cnn:fp32",),
    "recipe show": ("feddf",),
    "agent collect": ("--config", "none.toml", "--label", "a", "--from", "true"),
    "model export": ("cnn:fp32", "--config", "none.toml", "--out", "none.onnx"),
    "experiment": ("feddf-toy",),  # without --out, which is missed after everything else
}
#: Texts that hold numbers, and how.
SPELLED = dict.fromkeys(("--devices", "--batch-devices", "--source-classes", "--seeds", "--input"), "{}")
SPELLED |= {"--attack": "faulty:{}", "--fusion": "steps={}", "--option": "min_size={}"}


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if path and (not hasattr(group, "commands") or group.invoke_without_command):
        yield " ".join(path), group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


def numeric_options() -> list[tuple[str, str]]:
    found = []
    for name, command in commands(typer.main.get_command(app)):
        for option in command.params:
            spelled = option.opts[0]
            if (spelled in SPELLED and name != "agent predict") or _is_number(option):
                found.append((name, spelled))
    return found


def _is_number(option: Any) -> bool:
    """Of Typer's own options, or of Click's, which earlier ones are."""
    described = getattr(option, "type_descriptor", None)
    kind = option.type if described is None else described.annotation
    return re.search(r"\b(int|float)", str(kind), re.IGNORECASE) is not None


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(120)  # only ends a hang
    try:
        with pytest.raises(SystemExit) as ended:
            main(args)
    finally:
        signal.alarm(0)
    said = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, said.err


def _too_long(*_: object) -> None:
    raise AssertionError("it hangs")


def test_every_command_with_a_number_is_tried_here() -> None:
    found = numeric_options()
    assert {command for command, _ in found} == set(NEEDED)
    assert len(found) > 35


@pytest.mark.parametrize(
    "values",
    [(str(10**20), "nan", "-1"), pytest.param((*INSANE, "-1", "0", ""), marks=pytest.mark.slow)],
    ids=["some", "all"],
)
@pytest.mark.parametrize(("command", "option"), numeric_options(), ids=lambda word: word)
def test_a_number_that_makes_no_sense_is_one_line(
    command: str,
    option: str,
    values: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for value in values:
        text = SPELLED.get(option, "{}").format(value)
        code, err = run(capsys, *command.split(), *NEEDED[command], f"{option}={text}")
        what = f"{option}={value[:30]}: {code} {err[:300]}"
        assert "Traceback" not in err, what
        assert "internal error" not in err, what
        assert err.count("\n") <= 1, what
        assert len(err) < 600, what
        if value in INSANE:
            assert code in (2, 3), what
            assert CALLED.get(option, option.lstrip("-").rpartition("-")[2]) in err.replace("_", "-"), what
    assert list(tmp_path.iterdir()) == []


def tables() -> list[tuple[str, Field]]:
    found: dict[str, Mapping[str, Field]] = {f"fleet.toml [{name}]": fields for name, fields in FLEET.items()}
    found |= {f"agent.toml [{name}]": fields for name, fields in AGENT.items()}
    others = {"[broker]": BrokerTable, "[provision]": ProvisionConfig, "[[group]]": GroupConfig}
    others |= {"board": Board, "hardware": Hardware}
    found |= {name: describe(struct) for name, struct in others.items()}
    fields = [(f"{where} {name}", field) for where, table in found.items() for name, field in table.items()]
    return [(name, field) for name, field in fields if field.kind in (int, float)]


@pytest.mark.parametrize(("name", "field"), tables(), ids=[name for name, _ in tables()])
def test_a_config_key_refuses_what_makes_no_sense(name: str, field: Field) -> None:
    wrong: list[Any] = [10**20, 10**400, -(10**20), int("9" * 4000), 0x10**20_000]
    wrong += [1e308, float("nan"), float("inf"), float("-inf")]
    for value in wrong:
        with pytest.raises(ConfigError) as refused:
            checked(field, value, name)
        assert len(str(refused.value)) < 300
    for text in INSANE:
        with pytest.raises(ConfigError):
            value_of(field, text, name)
