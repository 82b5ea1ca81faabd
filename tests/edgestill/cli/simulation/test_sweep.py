"""`edgestill sweep`, as a user runs it: real simulations, as small as they come."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from core.errors import ConfigError, EdgestillError
from edgestill.cli import output
from edgestill.cli.main import app
from fleet.results.run_file import Run, read_run, write_run
from tests.fleet.report.made import a_run

SWEEP = """
[simulate]
devices = 2
prototypes = "mlp:fp32"
rounds = 1
local-steps = 1

[grid]
lr = [0.01, 0.02]
"""


def call(*arguments: object) -> str:
    """What the command prints; errors of ours propagate, as `main` wants them to."""
    done = CliRunner().invoke(app, ["sweep", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(output.out, "width", 200)
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    return path


def test_a_sweep_goes_on_where_it_was_and_tells_its_means(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first, second = out / "runs" / "lr=0.01", out / "runs" / "lr=0.02"
    first.mkdir(parents=True)
    flags = json.loads(call(file, "--out", out, "--dry-run", "--json"))[0]["flags"]
    config = json.loads(CliRunner().invoke(app, ["simulate", *flags, "--dry-run"], catch_exceptions=False).stdout)
    write_run(Run(config=config, fleet=[], rounds=a_run((0.5,)).rounds), first)  # as if it had been made
    second.write_text("in the way")
    with pytest.raises(EdgestillError, match=r"1 of 1 runs failed; lr=0.02: edgestill: .*choose another .*lr=0.02.log"):
        call(file, "--out", out, "-q")
    facts = json.loads((out / "sweep.json").read_text())
    assert ([run["run"] for run in facts["runs"]], facts["missing"]) == (["lr=0.01"], ["lr=0.02"])

    second.unlink()
    kept = (first / "run.json").stat().st_mtime_ns
    facts = json.loads(call(file, "--out", out, "--json"))
    assert (first / "run.json").stat().st_mtime_ns == kept, "what is done is kept"
    assert [row["point"] for row in facts["rows"]] == [{"lr": 0.01}, {"lr": 0.02}]
    assert facts["rows"][0]["metrics"]["accuracy"] == {"mean": 0.375, "std": None}
    accuracy = read_run(second)["rounds"][0]["prototypes"]["mlp:fp32"]["accuracy"]
    assert facts["rows"][1]["metrics"]["mlp:fp32"] == {"mean": accuracy, "std": None}
    with (out / "sweep.csv").open() as table:
        assert [line["lr"] for line in csv.DictReader(table)] == ["0.01", "0.02"]
    shown = [line.split() for line in call(file, "--out", out).splitlines()]
    assert ["0.02", "1", f"{100 * accuracy:.1f}"] in [line[:3] for line in shown]
    file.write_text(SWEEP.replace("local-steps = 1", "local-steps = 2"))
    with pytest.raises(ConfigError, match="holds a run with other settings, one of 2; give another --out, or --force"):
        call(file, "--out", out)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("lr = [", "lrs = ["), "unknown setting 'lrs'; did you mean 'lr'"),
        (
            ("lr = [0.01, 0.02]", 'recipe = ["fedavg", "fedvag"]'),
            r"sweep.toml \[grid\]: 'recipe': unknown recipe 'fedvag'.*did you mean 'fedavg'.* \(run recipe=fedvag",
        ),
        (
            ("devices = 2\n", 'devices = 2\ndataset = "digit"\n'),
            r"sweep.toml \[simulate\]: 'dataset': unknown dataset 'digit'.*did you mean 'digits'",
        ),
    ],
)
def test_mistakes_are_told_before_anything_runs(file: Path, tmp_path: Path, change: tuple[str, str], says: str) -> None:
    file.write_text(SWEEP.replace(*change))
    with pytest.raises(ConfigError, match=says) as caught:
        call(file, "--out", tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_dry_run_lists_and_writes_nothing(file: Path, tmp_path: Path) -> None:
    said = call(file, "--out", tmp_path / "out", "--dry-run")
    assert [line.split() for line in said.splitlines()][1:] == [["lr=0.01", "missing"], ["lr=0.02", "missing"]]
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_named(file: Path) -> None:
    with pytest.raises(ConfigError, match="choose another folder"):
        call(file, "--out", file / "out")


def test_without_a_folder_it_is_named_as_the_file(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert "wrote sweep/sweep.json" in call(file, "-q")
    assert len(json.loads((elsewhere / "sweep" / "sweep.json").read_text())["runs"]) == 2
    assert not (tmp_path / "sweep").exists()
