"""Children run our modules, not files of the folder that somebody has started us in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from core.processes.python_child import ROOT, import_path, module_arguments

pytestmark = pytest.mark.light
PACKAGES = (
    "wire",
    "transport",
    "quant",
    "models",
    "edge_agent",
    "aggregator",
    "fleet",
    "edgestill",
    "firmware_configs",
)


def test_nothing_of_the_working_folder_runs_and_arguments_arrive(tmp_path: Path) -> None:
    for name in ("json", "wire", "models", "runpy", "typer", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('planted')")
    env = {**os.environ, "PYTHONPATH": import_path()}
    command = [sys.executable, *module_arguments("edgestill", "board", "list", "--json")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "rpi" in done.stdout


def test_the_path_of_a_child_has_no_empty_entry() -> None:
    assert "" not in import_path().split(os.pathsep)


def test_no_child_is_started_by_the_switch_that_reads_the_working_folder() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r'(?<!"-I", )"-m",', line) and "pip" not in line  # -I leaves the working folder out
    ]
    assert found == []
