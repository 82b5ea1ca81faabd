"""The shell completes names: of what is installed, and of a fleet's devices and models; quickly, without torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from aggregator.recipes.catalogue import RECIPES
from edgestill.cli import completion
from edgestill.cli.main import app
from fleet.data.registry import DATASETS
from fleet.partition import PARTITIONS
from tests.aggregator.scripted import write_fleet
from transport.config import BrokerConfig

CALL = """
import sys
from edgestill.cli.main import main
try:
    main([])
finally:
    heavy = {"torch", "matplotlib", "brevitas"} & set(sys.modules)
    print("heavy:", sorted(heavy), file=sys.stderr)
"""


def completed(line: str, folder: Path) -> list[str]:
    """What bash is given for a line, by the command itself in a process of its own."""
    words = line.split(" ")
    env = {**os.environ, "_EDGESTILL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", CALL], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert "heavy: []" in done.stderr, done.stderr
    return done.stdout.split()


def test_names_are_those_that_there_are() -> None:
    assert completion.recipes("") == list(RECIPES)
    assert completion.datasets("") == list(DATASETS)
    assert sorted(completion.partitions("")) == sorted(PARTITIONS)
    assert "rpi-zero-2w" in completion.boards("rpi")
    assert "fedrad-table1" in completion.experiments("fedrad")
    assert completion.attacks("faulty:6,mal") == ["faulty:6,malicious:"]


def test_the_last_of_a_list_is_completed() -> None:
    assert completion.prototypes("cnn:fp32,mlp:w1") == ["cnn:fp32,mlp:w1", "cnn:fp32,mlp:w1a1"]
    assert completion.boards("rpi4:3,rpi-z") == ["rpi4:3,rpi-zero-2w"]


def test_paths_of_datasets_are_completed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.npz").touch()
    (tmp_path / "minerals").mkdir()
    monkeypatch.chdir(tmp_path)
    assert completion.datasets("mine") == ["mine.npz", "minerals/"]


def test_every_setting_with_names_is_completed() -> None:
    (simulate,) = [c for n, c in typer.main.get_command(app).commands.items() if n == "simulate"]  # type: ignore[attr-defined]
    completing = {p.name for p in simulate.params if getattr(p, "_custom_shell_complete", None)}
    assert completing == set(completion.SETTING_NAMES)


def test_the_shell_is_given_devices_and_models_of_the_fleet(tmp_path: Path) -> None:
    path = write_fleet(tmp_path, BrokerConfig(), ["pi-00", "pi-01", "oven"])
    for config in ("", f"--config {path.name} "):
        assert completed(f"edgestill device show {config}pi", tmp_path) == ["pi-00", "pi-01"]
    assert completed("edgestill model show ", tmp_path) == ["mlp:fp32", "cnn:w1"]
    assert completed("edgestill simulate --recipe fedra", tmp_path) == ["fedrad"]


def test_without_a_readable_fleet_nothing_is_completed(tmp_path: Path) -> None:
    assert completed("edgestill device show pi", tmp_path) == []
    (tmp_path / "fleet.toml").write_text("[fusion")
    assert completed("edgestill device show pi", tmp_path) == []
