"""The wheel has what the code reads beside its modules: templates, style, board profiles."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RENDER = """
import sys
from pathlib import Path

from fleet.experiments import page as experiments
from fleet.experiments.registry import find_experiment
from fleet.report.facts import read_runs
from fleet.report.html import page as report

assert Path(report.__file__).is_relative_to(sys.argv[1]), report.__file__
print(report.page(read_runs([Path(sys.argv[2])]), [], 0.7))
facts = {"experiment": "feddf-toy", "cells": [], "not_measured": [], "seeds": [], "versions": {}, "seconds": 1.0}
print(experiments.markdown(find_experiment("feddf-toy"), {**facts, "parameters": {}}), experiments.index([]))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of a wheel, built from a copy of the source tree."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for package in re.findall(r'"(\w+)\*"', (ROOT / "pyproject.toml").read_text()):
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-q"]
    done = subprocess.run([*pip, "-w", str(out), str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = out.glob("edgestill-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(out / "site")
    return out / "site"


def test_every_file_of_a_package_is_in_the_wheel(installed: Path) -> None:
    packages = [path for path in installed.iterdir() if path.suffix != ".dist-info"]
    assert {"fleet", "firmware_configs", "edgestill"} <= {path.name for path in packages}
    for package in packages:
        for path in (ROOT / package.name).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert (installed / path.relative_to(ROOT)).is_file(), f"{path.relative_to(ROOT)}: see package-data"


def test_an_installed_wheel_renders_its_templates(installed: Path, tmp_path: Path) -> None:
    from tests.fleet.report.made import written

    command = [sys.executable, "-c", RENDER, str(installed), str(written(tmp_path / "run"))]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for shown in ("<!DOCTYPE html>", "--ground: #f6f7f9", "77.5 %", "edgestill experiment feddf-toy", "# Results"):
        assert shown in done.stdout
