"""`edgestill report`, as a user runs it."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from core.errors import ConfigError, DataError, EdgestillError
from edgestill.cli import output
from edgestill.cli.main import app
from edgestill.cli.simulation.report import _where
from tests.fleet.report.made import a_run, result, written
from tests.fleet.sweep.made import swept


def call(*arguments: object) -> str:
    """What the command prints; errors of ours propagate, as `main` wants them to."""
    done = CliRunner().invoke(app, ["report", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output.out, "width", 300)


def test_the_report_of_one_run_is_in_its_folder(tmp_path: Path) -> None:
    run = written(tmp_path / "run")
    said = call(run / "run.json")
    assert f"wrote {run / 'report.html'} and 6 figures" in said
    rows = [line.split() for line in said.splitlines()]
    assert ["run", "cnn:fp32", "90.0", "%", "90.0", "%", "3"] in rows
    assert ["run", "cnn:w1", "65.0", "%", "65.0", "%", "not", "reached"] in rows
    assert len(list(run.glob("report-*.png"))) == 6


def test_own_and_personal_models_stand_beside_the_fused_one(tmp_path: Path) -> None:
    scored = {"own_accuracy": 0.8, "own_worst": 0.4, "own_best": 0.9}
    for config, words in (
        ({}, "own models, own slice"),
        ({"fusion": {"personal": True}}, "personal models, own slice"),
    ):
        run = a_run((0.9,), **config)
        run.rounds[0].prototypes["cnn:fp32"] = result(0.9, **scored)
        said = call(written(tmp_path / words.split()[0], run))
        assert words in said
        assert ["cnn:fp32", "90.0", "%", "80.0", "%", "40.0", "%", "90.0", "%"] in [
            line.split()[1:10] for line in said.splitlines()
        ]


def test_the_report_of_several_runs_is_where_one_is(tmp_path: Path) -> None:
    runs = [written(tmp_path / name) for name in ("a", "b")]
    assert _where(runs) == Path("report.html")
    assert _where(runs[:1]) == _where([runs[0] / "run.json"]) == runs[0] / "report.html"


@pytest.mark.parametrize(
    ("arguments", "kind", "says"),
    [
        (["nowhere"], DataError, "not a readable run.json"),
        (["run", "--target", "0"], ConfigError, "--target 0: give an accuracy in %"),
        (["run", "--target", "nan"], ConfigError, "--target nan"),
        (["run", "--out", "page.pdf"], ConfigError, "ends in .html"),
        (["run", "--out", "none/page.html"], ConfigError, "a folder that exists"),
        (["run", "run"], ConfigError, "given twice"),
        (["run"] * 25, ConfigError, "give at most 24"),
    ],
)
def test_wrong_input_is_told_in_one_line_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], kind: type[EdgestillError], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "run")
    with pytest.raises(kind, match=says) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["run", "run.json"]


def test_the_report_of_a_sweep_has_a_row_per_point(tmp_path: Path) -> None:
    said = call(swept(tmp_path / "sweep"))
    rows = [line.split() for line in said.splitlines()]
    assert ["recipe=fedrad", "2", "67.5", "±", "7.1", "%", "80.0", "±", "7.1", "%", "55.0", "±", "7.1", "%"] in rows
    assert f"wrote {tmp_path / 'sweep' / 'report.html'}, " in said
    facts = json.loads(call(tmp_path / "sweep", "--json", "--out", tmp_path / "page.html"))
    assert [row["runs"] for row in facts["rows"]] == [2, 2]
    assert facts["missing"] == ["late"]
    assert str(tmp_path / "page.html") in facts["files"]


def test_without_pyarrow_the_report_of_a_sweep_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = CliRunner().invoke(app, ["report", str(swept(tmp_path / "sweep"))], catch_exceptions=False)
    assert done.exit_code == 0
    assert done.stderr == "rounds.parquet is not written: pyarrow is not installed; pip install 'edgestill[parquet]'\n"


def test_a_sweep_is_reported_alone_and_without_a_target(tmp_path: Path) -> None:
    sweep, run = swept(tmp_path / "sweep"), written(tmp_path / "run")
    with pytest.raises(ConfigError, match="one of them a sweep"):
        call(sweep, run)
    with pytest.raises(ConfigError, match="--target is for runs"):
        call(sweep, "--target", "80")
    assert not (sweep / "report.html").exists()
