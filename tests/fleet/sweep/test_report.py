"""The report of a sweep: one page without scripts, with a row per point, and the rounds as files beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.sweep.report import point_rows, write_sweep_report
from fleet.sweep.stored import read_stored
from tests.fleet.report.made import BIT, CNN
from tests.fleet.sweep.made import swept


def test_rows_have_mean_and_deviation_after_the_last_round(tmp_path: Path) -> None:
    rows = point_rows(read_stored(swept(tmp_path)).groups)
    assert [row["point"] for row in rows] == [{"recipe": "fedavg"}, {"recipe": "fedrad"}]
    assert rows[1]["metrics"][CNN] == {"mean": pytest.approx(0.8), "std": pytest.approx(0.1 / 2**0.5)}
    assert rows[1]["metrics"]["accuracy"]["mean"] == pytest.approx((0.8 + 0.55) / 2)
    alone = point_rows(read_stored(swept(tmp_path / "alone", seeds=(0,))).groups)
    assert alone[0]["metrics"][BIT] == {"mean": pytest.approx(0.45), "std": None}


def test_the_page_has_every_point_and_what_is_missing(tmp_path: Path) -> None:
    sweep = read_stored(swept(tmp_path / "sweep"))
    files = write_sweep_report(sweep, tmp_path / "sweep" / "report.html")
    assert [file.name for file in files][:3] == ["report.html", "report-spread.png", "rounds.csv"]
    assert all(file.stat().st_size > 0 for file in files)
    page = files[0].read_text()
    for shown in ("Sweep sweep", "recipe=fedrad", "80.0 ± 7.1\u00a0%", "late", "edgestill report sweep", "digits"):
        assert shown in page
    assert "<script" not in page


def test_names_are_escaped(tmp_path: Path) -> None:
    sweep = read_stored(swept(tmp_path / "sweep", names=("fedavg", "<b>bold&")))
    page = write_sweep_report(sweep, tmp_path / "report.html")[0].read_text()
    assert "<b>bold" not in page
    assert "&lt;b&gt;bold&amp;" in page
