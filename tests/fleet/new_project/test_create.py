"""A new project is complete or absent, its name hides nothing, and it does at once what its README says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from core.errors import ConfigError
from fleet.new_project import create
from fleet.new_project.create import FILES, create_project, package_name
from fleet.report.facts import read_facts

ROOT = Path(__file__).resolve().parents[3]


def test_a_project_has_its_files_and_no_open_ends(tmp_path: Path) -> None:
    files = create_project(tmp_path / "my-project")
    assert sorted(files) == sorted(path for path in (tmp_path / "my-project").rglob("*") if path.is_file())
    assert len(files) == len(FILES)
    for file in files:
        text = file.read_text()
        assert "{{" not in text
        if file.suffix == ".py":
            compile(text, str(file), "exec")
    assert list(tmp_path.iterdir()) == [tmp_path / "my-project"]


@pytest.mark.parametrize("name", ["My-Project", "1st", "a--b", "a/b/", "class", "x" * 41, "", "torch", "fleet", "json"])
def test_names_that_are_no_package_or_hide_one_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="project name"):
        package_name(name)


def test_nothing_is_replaced_and_no_folder_invented(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(ConfigError, match="exists already"):
        create_project(tmp_path / "there")
    with pytest.raises(ConfigError, match="create it first"):
        create_project(tmp_path / "absent" / "mine")


def test_a_project_that_cannot_be_finished_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(create.FILES, "absent.j2", "absent")
    with pytest.raises(Exception, match=r"absent\.j2"):
        create_project(tmp_path / "mine")
    assert list(tmp_path.iterdir()) == []


def environment(folder: Path) -> dict[str, str]:
    """A virtual environment with what this one has, so that installing the project changes nothing else."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    site.joinpath("here.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
    for name, module in {"edgestill": "edgestill", "pip": "pip"}.items():
        command = folder / "bin" / name
        command.write_text(f'#!/bin/sh\nexec "{folder}/bin/python" -m {module} "$@"\n')
        command.chmod(0o755)
    return {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1"}


@pytest.mark.slow
def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    create_project(tmp_path / "my-project")
    project = tmp_path / "my-project"
    (fence,) = re.findall(r"^```console\n(.*?)^```$", (project / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    commands = [line.removeprefix("$ ") for line in fence.splitlines()]
    assert len(commands) == 7
    env = environment(tmp_path / "env")
    for command in commands:
        done = subprocess.run(["sh", "-c", command], cwd=project, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    run = read_facts(project / "run", "run")
    assert run.prototypes == ["my_project_net:fp32", "my_project_net:w1"]
    assert all(p.accuracy > 0.4 for p in run.last.prototypes.values()), "guessing reaches a quarter"
    assert len(list((project / "sweep" / "runs").iterdir())) == 4
    assert (project / "sweep" / "report.html").is_file()
