"""All rounds of a sweep: a row per run, round and prototype, the same in CSV and Parquet."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from fleet.sweep.rounds import all_rounds, write_rounds
from fleet.sweep.stored import read_stored
from tests.fleet.report.made import BIT, CNN
from tests.fleet.sweep.made import swept


def test_every_round_of_every_run_is_a_row_for_each_prototype(tmp_path: Path) -> None:
    rows = all_rounds(read_stored(swept(tmp_path)))
    assert len(rows) == 2 * 2 * 3 * 2
    (row,) = [r for r in rows if (r["recipe"], r["seed"], r["round"], r["prototype"]) == ("fedrad", 1, 2, CNN)]
    assert row["accuracy"] == pytest.approx(0.6 + 0.1 + 0.05)
    assert (row["run"], row["bytes_up"], row["seconds"]) == ("recipe=fedrad,seed=1", 1_000_000, 10.0)
    assert row["accuracy_float"] is None
    assert {r["prototype"] for r in rows} == {CNN, BIT}


def test_csv_has_the_rows(tmp_path: Path) -> None:
    sweep = read_stored(swept(tmp_path))
    write_rounds(sweep, tmp_path)
    with (tmp_path / "rounds.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [float(row["accuracy"]) for row in read] == [row["accuracy"] for row in all_rounds(sweep)]
    assert read[0]["accuracy_float"] == ""


def test_parquet_has_the_same_rows_with_their_types(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    sweep = read_stored(swept(tmp_path))
    assert write_rounds(sweep, tmp_path) == [tmp_path / "rounds.csv", tmp_path / "rounds.parquet"]
    table = parquet.read_table(tmp_path / "rounds.parquet")
    assert table.to_pylist() == all_rounds(sweep)
    kinds = {name: str(table.schema.field(name).type) for name in ("recipe", "seed", "round", "accuracy", "bytes_up")}
    assert kinds == {"recipe": "string", "seed": "int64", "round": "int64", "accuracy": "double", "bytes_up": "int64"}


def test_without_pyarrow_there_is_csv_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert write_rounds(read_stored(swept(tmp_path)), tmp_path) == [tmp_path / "rounds.csv"]
    assert not (tmp_path / "rounds.parquet").exists()
