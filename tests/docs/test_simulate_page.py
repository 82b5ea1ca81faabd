"""docs/own.md and simulate.md are true: what is a user's own joins a fleet at once, files are as flags."""

from __future__ import annotations

import json
from configparser import ConfigParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from edgestill.cli.main import app
from fleet.results.run_file import read_run
from tests.docs.test_docs import ROOT, environment, run_shell, shell_lines, snippets

OWN, TUTORIAL = ROOT / "docs" / "own.md", ROOT / "docs" / "simulate.md"


@pytest.mark.slow
def test_what_is_your_own_joins_a_fleet_as_the_page_says(tmp_path: Path) -> None:
    page = snippets(OWN)
    (declared,) = [s.code for s in page if s.language == "toml" and "entry-points" in s.code]
    project = ConfigParser()
    project.read_string(declared)
    targets = {group: dict(project[group]) for group in project.sections()}
    package = tmp_path / "mypackage"
    package.mkdir()
    for name in {target.strip('"').partition(":")[2] for group in targets.values() for target in group.values()}:
        (code,) = [s.code for s in page if s.language == "python" and f"def {name}(" in s.code]
        (module,) = {
            target.strip('"').partition(":")[0].split(".")[1]
            for group in targets.values()
            for target in group.values()
            if target.strip('"').endswith(f":{name}")
        }
        (package / f"{module}.py").write_text(code)
    installed = tmp_path / "mypackage-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: mypackage\nVersion: 1.0\n")
    lines = []
    for group, points in targets.items():
        lines.append(f"[{group.removeprefix('project.entry-points.').strip(chr(34))}]")
        lines += [f"{name} = {target}".replace('"', "") for name, target in points.items()]
    (installed / "entry_points.txt").write_text("\n".join([*lines, ""]))
    (data,) = [s.code for s in page if s.language == "python" and "mine.npz" in s.code]
    (command,) = [line for s in page if s.language == "console" for line in shell_lines(s.code) if "narrow" in line]
    env = environment(tmp_path)
    run_shell(f"python -c '{data}'\n{command} --engine inline", tmp_path, env)
    run = read_run(tmp_path / "own")
    assert list(run["rounds"][-1]["prototypes"]) == ["narrow:fp32", "narrow:w1"]
    assert sorted(d["attack"] for d in run["fleet"] if "attack" in d) == ["drown", "shift"]
    sizes = {d["device"]: d["examples"] for d in run["fleet"] if d["prototype"] == "narrow:fp32"}
    whole = sum(n**0.5 for n in sizes.values())
    for device, n in sizes.items():
        assert abs(run["rounds"][-1]["devices"][device]["weight"] - n**0.5 / whole) < 1e-6, "weighed by the own part"


def test_the_file_of_the_page_is_what_its_flags_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = snippets(TUTORIAL)
    (text,) = [s.code for s in page if s.language == "toml" and "[simulate]" in s.code]
    (command,) = [line for s in page if s.language == "console" for line in shell_lines(s.code) if "--config" in line]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(text)
    flags = "--devices 6 --prototypes cnn:fp32,cnn:w1 --rounds 3 --local-steps 5 --recipe feddf --fusion steps=20"
    by_file, by_flags = (
        CliRunner().invoke(app, [*words.split(), "--dry-run"], catch_exceptions=False).stdout
        for words in (command.removeprefix("edgestill "), f"simulate {flags}")
    )
    assert json.loads(by_file) == json.loads(by_flags)
