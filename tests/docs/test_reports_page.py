"""docs/reports.md is true: its sweep is one, its flags are all, its figures are those of a report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from edgestill.cli import output
from edgestill.cli.main import app
from tests.docs.test_docs import ROOT, shell_lines, snippets, table_rows

PAGE = "docs/reports.md"


def test_the_sweep_of_the_page_is_the_runs_that_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = snippets(ROOT / PAGE)
    (text,) = [s.code for s in page if s.language == "toml"]
    (command,) = [line for s in page if s.language == "console" for line in shell_lines(s.code) if "--dry-run" in line]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(output.out, "width", 200)
    (tmp_path / "sweep.toml").write_text(text)
    done = CliRunner().invoke(app, command.split()[1:], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    names = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    assert len(names) == 8
    (example,) = re.findall(r"`NAME` such as `([^`]+)`", (ROOT / PAGE).read_text())
    assert example in names
    assert not (tmp_path / "sweep").exists()


def test_the_flags_of_report_are_all_there() -> None:
    section = (ROOT / PAGE).read_text().partition("## A report\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `(--[\w-]+)`", section, re.MULTILINE))
    (report,) = [c for n, c in typer.main.get_command(app).commands.items() if n == "report"]
    assert named == {flag for p in report.params for flag in p.opts if flag.startswith("--")} - {"--help"}


def test_the_sections_of_a_report_are_named() -> None:
    source = (ROOT / "fleet" / "report" / "figures" / "catalogue.py").read_text()
    titles = {title.partition(" {")[0] for title in re.findall(r'title=f?"([^"]+)"', source)} - {
        "Runs against each other"
    }
    told = " ".join(row[0] for row in table_rows(PAGE, "A report"))
    assert len(titles) == 7
    assert [title for title in titles if title.partition("{")[0] not in told] == []
