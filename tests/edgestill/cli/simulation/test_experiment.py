"""`edgestill experiment`, as a user runs it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from core.errors import ConfigError, EdgestillError
from edgestill.cli import output
from edgestill.cli.main import app
from fleet.experiments.store import Store, Work


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `edgestill experiment ...`; errors of ours propagate, as `main` wants them to."""
    monkeypatch.setattr(output.out, "width", 200)

    def call(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["experiment", *arguments], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    return call


def test_it_resumes_and_measures_again_when_forced(run: Any, toy: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    store = Store(out)
    store.make()
    store.write(Work("two", "paper", 0), {"value": 1.5}, 1.0)
    chosen = (toy, "--cells", "tw*", "--fidelity", "paper", "--out", str(out), "--json")
    kept = json.loads(run(*chosen))
    assert kept["cells"][0]["ours"] == 1.5, "what is there is not measured again"
    again = json.loads(run(*chosen, "--force", "--seeds", "0,1"))
    assert (again["cells"][0]["ours"], again["cells"][0]["seeds"]) == (2.5, [0, 1])
    assert "paper: seven" in again["not_measured"]


def test_a_table_is_printed_and_the_page_written_elsewhere_too(run: Any, toy: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    store.make()
    store.write(Work("two", "paper", 0), {"value": 2}, 1.0)
    said = run(toy, "--report-only", "--out", str(tmp_path / "out"), "--page", str(tmp_path / "results"))
    assert "paper: two" in said
    assert "2 ± 0.6" in said
    assert store.read(Work("seven/of 9", "paper", 0)) is None, "nothing was measured"
    assert {path.name for path in (tmp_path / "results").iterdir()} == {"README.md", "toy.json", "toy.md", "toy.png"}


def test_a_failed_run_is_told_after_the_report_is_written(
    run: Any, toy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = io.StringIO()
    monkeypatch.setattr(output.err, "_file", said)
    with pytest.raises(EdgestillError, match=r"1 of 2 runs failed; seven/of 9 \(paper, seed 13\): seed 13 is unlucky"):
        run(toy, "--fidelity", "paper", "--seeds", "13", "--out", str(tmp_path / "out"))
    assert "two (paper, seed 13) done in" in said.getvalue()
    assert "Not measured: paper: seven" in (tmp_path / "out" / "toy.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give --out"),
        (("--out", "x", "--seeds", "a"), "--seeds 'a'"),
        (("--out", "x", "--fidelity", "exact"), "this experiment has paper and reference"),
        (("--out", "x", "--cells", "two,nine"), "'nine': no such cell; there are paper: two, paper: seven"),
    ],
)
def test_wrong_usage_is_said_in_one_line(
    run: Any, toy: str, arguments: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=says) as caught:
        run(toy, *arguments)
    assert "\n" not in str(caught.value)


def test_the_list_names_every_experiment(run: Any, toy: str) -> None:
    assert {"toy", "feddf-toy"} <= {entry["name"] for entry in json.loads(run("list", "--json"))}
    assert "feddf-toy" in run("list")
