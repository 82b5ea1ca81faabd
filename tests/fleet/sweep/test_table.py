"""Means and standard deviations over seeds, worked by hand."""

import csv
import io

import pytest

from fleet.sweep.table import Measured, rows, rows_csv, runs_csv


def run(recipe: str, seed: int, accuracy: float, **more: float) -> Measured:
    point = {"recipe": recipe, "seed": seed}
    return Measured(name=f"{recipe}-{seed}", point=point, metrics={"accuracy": accuracy, **more})


RUNS = [run("fedavg", 0, 0.5), run("feddf", 0, 0.9, ensemble=0.95), run("fedavg", 1, 0.7)]


def test_runs_that_differ_in_the_seed_alone_are_one_row() -> None:
    avg, df = rows(RUNS)
    assert (avg.point, avg.seeds) == ({"recipe": "fedavg"}, (0, 1))
    assert avg.mean["accuracy"] == pytest.approx(0.6)
    assert avg.std["accuracy"] == pytest.approx(0.2 / 2**0.5)
    assert (df.mean, df.std) == ({"accuracy": 0.9, "ensemble": 0.95}, {"accuracy": None, "ensemble": None})


def test_a_metric_that_one_seed_lacks_has_no_mean() -> None:
    (row,) = rows([run("feddf", 0, 0.9, ensemble=0.95), run("feddf", 1, 0.8)])
    assert set(row.mean) == {"accuracy"}


def test_csv_has_a_column_for_every_key_and_metric() -> None:
    lines = list(csv.DictReader(io.StringIO(rows_csv(rows(RUNS)))))
    assert [(line["recipe"], line["runs"]) for line in lines] == [("fedavg", "2"), ("feddf", "1")]
    assert float(lines[0]["accuracy mean"]) == pytest.approx(0.6)
    assert (lines[0]["ensemble mean"], lines[1]["accuracy std"]) == ("", "")
    each = list(csv.DictReader(io.StringIO(runs_csv(RUNS))))
    assert [(line["run"], line["seed"], line["accuracy"]) for line in each][2] == ("fedavg-1", "1", "0.7")


def test_nothing_measured_is_an_empty_table() -> None:
    assert rows([]) == []
    assert rows_csv([]) == "runs\n"
