"""`edgestill simulate`: where its settings come from, flags before variables before the file before defaults."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from edgestill.cli.main import _run, app
from edgestill.cli.simulation.setting_options import names_given, with_settings
from fleet.simulation.settings.table import SETTINGS

FILE = """
[simulate]
rounds = 3
alpha = 0.1
local-steps = 5
prototypes = ["mlp:fp32", "cnn:w1"]
fusion = { weigh = "uniform" }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(FILE)
    return path


def settings(capsys: pytest.CaptureFixture[str], *flags: object) -> dict[str, Any]:
    assert _run(["simulate", "--dry-run", *map(str, flags)], debug=True) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_a_file_has_what_flags_have(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_flags = [
        "--rounds",
        "3",
        "--alpha",
        "0.1",
        "--local-steps",
        "5",
        "--prototypes",
        "mlp:fp32,cnn:w1",
        "--fusion",
        "weigh=uniform",
    ]
    assert settings(capsys, "--config", file) == settings(capsys, *by_flags)


def test_flags_come_before_variables_and_these_before_the_file(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGESTILL_SIMULATE_ALPHA", "0.2")
    monkeypatch.setenv("EDGESTILL_SIMULATE_ROUNDS", "4")
    monkeypatch.setenv("EDGESTILL_SIMULATE_SEED", "7")
    found = settings(capsys, "--config", file, "--rounds", "10", "--fusion", "weigh=examples")
    assert (found["rounds"], found["alpha"], found["seed"]) == (10, 0.2, 7), (
        "a flag counts with its default's value too"
    )
    assert found["training"]["steps"] == 5
    assert found["fusion"] == {"weigh": "examples"}


def test_mistakes_are_told_by_file_and_variable(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("[simulate]\nlocal-step = 3")
    assert _run(["simulate", "--config", str(file), "--dry-run"], debug=False) == 3
    assert "[simulate]: unknown setting 'local-step'; did you mean 'local_steps'?" in capsys.readouterr().err
    monkeypatch.setenv("EDGESTILL_SIMULATE_LATENT", "wide")
    assert _run(["simulate", "--dry-run"], debug=False) == 3
    assert "EDGESTILL_SIMULATE_LATENT is 'wide', expected a whole number" in capsys.readouterr().err


def test_a_resumed_run_has_settings_of_its_own(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["simulate", "--resume", str(tmp_path), "--config", str(file)], debug=False) == 3
    assert "remove --config" in " ".join(capsys.readouterr().err.split())


def test_help_needs_no_simulation() -> None:
    code = "import sys, edgestill.cli.main; print([m for m in ('torch', 'numpy', 'fleet.attacks') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_every_setting_is_an_option_of_its_panel_before_the_commands_own() -> None:
    command = typer.main.get_command(app).commands["simulate"]  # type: ignore[attr-defined]
    names = [parameter.name for parameter in command.params]
    assert names[: len(SETTINGS)] == list(SETTINGS)
    assert set(names[len(SETTINGS) :]) >= {"broker", "out_dir", "config_file", "resume"}
    for parameter in command.params[: len(SETTINGS)]:
        setting = SETTINGS[parameter.name]
        assert (parameter.opts, parameter.secondary_opts) == ([setting.flag], [])
        assert (parameter.help, parameter.rich_help_panel) == (setting.help, setting.extra["panel"])


def test_only_what_the_command_line_has_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []
    toy = typer.Typer()

    @toy.command()
    @with_settings
    def command(ctx: typer.Context, given: dict[str, Any], loud: bool = False) -> None:
        seen.append({**given, "names": names_given(ctx), "loud": loud})

    CliRunner().invoke(toy, ["--rounds", "10", "--fusion", "a=1", "--fusion", "b=2", "--loud"], catch_exceptions=False)
    CliRunner().invoke(toy, [], catch_exceptions=False)
    assert seen == [
        {"rounds": 10, "fusion": ["a=1", "b=2"], "names": {"rounds", "fusion", "loud"}, "loud": True},
        {"names": set(), "loud": False},
    ]


def test_a_dry_run_refuses_a_callback_that_the_run_would_refuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["simulate", "--callback", "x", "--dry-run"], debug=False) == 3
    assert capsys.readouterr().err == "edgestill: 'x': write FILE.py:NAME, such as net.py:MyNet\n"
