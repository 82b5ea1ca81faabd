"""What a run object offers."""

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import edgestill as es
from core.errors import ConfigError, DataError
from edgestill.api import run as module


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> es.Run:
    out = tmp_path_factory.mktemp("runs") / "run"
    return es.simulate(devices=4, prototypes="cnn:fp32,cnn:w1", rounds=2, score_every=2, out=out, quiet=True)


def test_rows_are_one_per_round_and_prototype(run: es.Run) -> None:
    rows = run.rows
    assert [(row["round"], row["prototype"]) for row in rows] == [(n, p) for n in (1, 2) for p in run.prototypes]
    assert rows[0]["accuracy"] is None
    assert rows[3]["accuracy"] == run.rounds[1].prototypes["cnn:w1"].accuracy
    assert rows[3]["bytes_up"] < rows[2]["bytes_up"]


def test_history_is_a_frame_of_the_rows(run: es.Run) -> None:
    pytest.importorskip("pandas")
    history = run.history
    assert list(history["prototype"]) == ["cnn:fp32", "cnn:w1"] * 2
    assert history["accuracy"].isna().tolist() == [True, True, False, False]


def test_without_pandas_it_says_so_in_one_line(run: es.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ConfigError, match="pip install pandas; `rows` has the same"):
        run.history  # noqa: B018


def test_plot_is_a_picture_and_a_file(run: es.Run, tmp_path: Path) -> None:
    figure = run.plot(tmp_path / "curves.png")
    with Image.open(tmp_path / "curves.png") as picture:
        assert picture.size == (1425, 600)
    assert figure._repr_png_()[:4] == b"\x89PNG"


def test_report_is_the_command_lines(run: es.Run, tmp_path: Path) -> None:
    page = run.report(tmp_path / "report.html", target=60)
    assert "60 %" in page.read_text()
    with pytest.raises(ConfigError, match=r"ends in \.html"):
        run.report(tmp_path / "report.pdf")
    with pytest.raises(ConfigError, match="target 200: give an accuracy"):
        run.report(tmp_path / "report.html", target=200)


def test_summary_says_what_the_stages_cost(run: es.Run) -> None:
    assert run.summary().startswith("after round 2, on the test set")
    assert "of this, training, summed over all devices" in run.summary() or "2 rounds in" in run.summary()


def test_a_run_is_loaded_from_its_folder(run: es.Run) -> None:
    assert run.out is not None
    loaded = es.load_run(run.out / "run.json")
    assert loaded.rows[3]["accuracy"] == run.rows[3]["accuracy"]
    assert loaded.model("cnn:w1").digest == run.model("cnn:w1").digest
    assert repr(loaded) == repr(run)
    assert loaded.fleet == run.fleet


def test_models_are_named_whole_or_by_their_architecture(run: es.Run) -> None:
    assert run.model("cnn:w1").name == "cnn:w1"
    for name, says in [
        ("cnn", "2 prototypes are called 'cnn'"),
        ("cn:w1", "no prototypes are called.*did you mean"),
        (None, "give a prototype"),
    ]:
        with pytest.raises(ConfigError, match=says):
            run.model(name)


def test_a_run_without_checkpoints_has_no_models(run: es.Run, tmp_path: Path) -> None:
    assert run.out is not None
    (tmp_path / "run.json").write_bytes((run.out / "run.json").read_bytes())
    with pytest.raises(DataError, match="has no checkpoint"):
        es.load_run(tmp_path).model("cnn:w1")


def test_frames_take_any_rows() -> None:
    pytest.importorskip("pandas")
    rows: list[dict[str, Any]] = [{"a": 1}, {"a": 2}]
    assert module.frame(rows)["a"].tolist() == [1, 2]
