"""Settings as the command line of the process that makes a run."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from edgestill.cli.simulation.simulate import simulate
from fleet.simulation.settings.table import SETTINGS
from fleet.sweep.settings import flags_of

TOLD = {"alpha": 0.1, "attack": "", "fusion": {"steps": 5, "keep_start": True}, "option": {"equal": False}}
WRITTEN = {str: "-x", int: 7, float: -0.5}


def test_flags_are_those_of_the_command_line() -> None:
    assert flags_of(TOLD) == [
        "--alpha=0.1",
        "--attack=",
        "--fusion=steps=5",
        "--fusion=keep_start=true",
        "--option=equal=no",
    ]
    assert flags_of({"virtual_clock": True}) == ["--virtual-clock"]
    assert flags_of({"virtual_clock": False}) == []


@pytest.mark.parametrize("key", SETTINGS)
def test_every_setting_comes_through_the_command_line(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = SETTINGS[key].kind
    value = {dict: {"a": 1}, bool: True, tuple: ("a", "b")}.get(kind) or WRITTEN.get(kind, "some/file")
    app, found = typer.Typer(), dict[str, Any]()
    monkeypatch.setattr("edgestill.cli.simulation.simulate._layers", lambda given, file: found.update(given) or 1 / 0)
    app.command()(simulate)
    with pytest.raises(ZeroDivisionError):
        typer.main.get_command(app).main(flags_of({key: value}), standalone_mode=False)
    assert found.keys() == {key}
    expected = {dict: ["a=1"], tuple: ["a", "b"]}
    assert found[key] == (expected[kind] if kind in expected else kind(value))
