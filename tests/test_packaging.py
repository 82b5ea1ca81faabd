"""The wheel has what the code reads beside its modules; what a release uploads builds, checks and installs clean."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
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


def packages() -> list[str]:
    return re.findall(r'"(\w+)\*"', (ROOT / "pyproject.toml").read_text())


def copied(source: Path) -> Path:
    """A copy of what distributions are made of."""
    for package in packages():
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    files = (
        "README.md",
        "LICENSE",
        "MANIFEST.in",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "CITATION.cff",
        "constraints.txt",
    )
    for name in ("pyproject.toml", *files):
        shutil.copy(ROOT / name, source)
    return source


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of a wheel, built from a copy of the source tree."""
    source, out = copied(tmp_path_factory.mktemp("source")), tmp_path_factory.mktemp("wheel")
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


def test_every_package_says_that_it_is_typed(installed: Path) -> None:
    assert [name for name in packages() if not (installed / name / "py.typed").is_file()] == []


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_what_a_release_uploads_builds_checks_and_installs_clean(tmp_path: Path) -> None:
    for tool in ("build", "twine", "check_wheel_contents"):
        pytest.importorskip(tool, reason="needs the tools of the extra dev, with Python 3.11 or newer")
    (tmp_path / "source").mkdir()
    source, dist = copied(tmp_path / "source"), tmp_path / "dist"
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, ".", cwd=source)
    (wheel,), (archive,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, archive, cwd=source)  # README.md renders too
    run(sys.executable, "-m", "check_wheel_contents", wheel, cwd=source)
    with tarfile.open(archive) as content:
        held = {name.split("/")[1] for name in content.getnames() if "/" in name}
    assert {"CHANGELOG.md", "CITATION.cff", "LICENSE", *packages()} <= held
    assert "tests" not in held
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "env", cwd=tmp_path)
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", tmp_path / "env" / "bin" / "python", "install", "--no-index"]
    run(*pip, "--no-deps", "--quiet", wheel, cwd=tmp_path)
    others = tmp_path / "others"  # what edgestill stands on, from here; edgestill itself from its wheel
    others.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "edgestill" not in entry.name and entry.suffix != ".pth":
            (others / entry.name).symlink_to(entry)
    (site / "others.pth").write_text(f"{others}\n")
    command = tmp_path / "env" / "bin" / "edgestill"
    assert run(command, "--version", cwd=tmp_path).startswith("edgestill 0.")
    where = "import fleet; print(fleet.__file__)"
    assert run(tmp_path / "env" / "bin" / "python", "-c", where, cwd=tmp_path).startswith(str(site))
    run(command, "recipe", "list", cwd=tmp_path)
