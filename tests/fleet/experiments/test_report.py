"""From measured runs to cells and to the three files of a result page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleet.experiments.registry import find_experiment
from fleet.experiments.report import collect, write_report
from tests.fleet.experiments.toys import filled


def test_cells_are_means_over_seeds_held_against_their_targets(toy: str, tmp_path: Path) -> None:
    rows = {row.name: row for row in collect(find_experiment(toy), filled(tmp_path / "out"))}
    two, seven, small, free = (rows[f"paper: {name}"] for name in ("two", "seven", "small", "free"))
    assert (two.ours, two.std, two.target, two.met) == (2.5, pytest.approx(0.5**0.5), "2 ± 0.6", True)
    assert (seven.ours, seven.target, seven.met) == (7.5, "> 2.50 (two)", True)
    assert (small.target, small.met) == ("<= 1", False)
    assert (free.target, free.met) == (None, True)
    assert rows["reference: two"].ours is None
    assert not rows["reference: two"].met


def test_one_seed_has_no_standard_deviation(toy: str, tmp_path: Path) -> None:
    row = collect(find_experiment(toy), filled(tmp_path / "out", seeds=(0,)))[0]
    assert (row.ours, row.std) == (2.0, None)


def test_the_report_is_three_files_and_a_page_elsewhere(toy: str, tmp_path: Path) -> None:
    store, page = filled(tmp_path / "out"), tmp_path / "docs" / "results"
    write_report(toy, find_experiment(toy), store, page=page)
    facts = json.loads((page / "toy.json").read_text())
    assert facts["cells"][0] | {"unit": "%"} == {
        "name": "paper: two",
        "paper": 2.0,
        "ours": 2.5,
        "std": pytest.approx(0.7071, abs=1e-4),
        "target": "2 ± 0.6",
        "met": True,
        "unit": "%",
        "fidelity": "paper",
        "seeds": [0, 1],
        "note": "",
    }
    assert facts["seconds"] == 6.0
    assert facts["seeds"] == [0, 1]
    assert facts["versions"]["python"]
    assert facts["not_measured"] == [f"reference: {name}" for name in ("two", "seven", "small", "free")]
    assert (page / "toy.png").read_bytes().startswith(b"\x89PNG")
    for suffix in ("json", "md", "png"):
        assert (page / f"toy.{suffix}").read_bytes() == (store.folder / f"toy.{suffix}").read_bytes()


def test_a_folder_of_pages_has_an_index_and_a_stranger_s_readme_stays(toy: str, tmp_path: Path) -> None:
    store, ours, theirs = filled(tmp_path / "out"), tmp_path / "results", tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "README.md").write_text("# Mine\n")
    ours.mkdir()
    (ours / "another.json").write_text('{"experiment": "another", "title": "Another", "cells": []}')
    for page in (ours, ours, theirs):
        write_report(toy, find_experiment(toy), store, page=page)
    lines = (ours / "README.md").read_text().splitlines()
    assert lines[-2:] == ["| [another](another.md) | Another | 0 of 0 |", "| [toy](toy.md) | Toy | 2 of 3 |"]
    assert (theirs / "README.md").read_text() == "# Mine\n"


def test_the_page_says_what_was_missed_and_what_was_not_measured(toy: str, tmp_path: Path) -> None:
    store = filled(tmp_path / "out")
    write_report(toy, find_experiment(toy), store)
    text = (store.folder / "toy.md").read_text()
    assert text.startswith("# Toy\n\nWhat is *two*?\n")
    assert "| paper: two | 2 % | 2.50 ± 0.71 % | 2 ± 0.6 | yes |" in text
    assert "| paper: seven (of 9) |  | 7.50 ± 0.71 | > 2.50 (two) | yes |" in text
    assert "| paper: small |  | 2.50 ± 0.71 % | <= 1 | **no** |" in text
    assert "2 of 3 targets are met. Missed: paper: small: 2.50 where <= 1 was required." in text
    assert "Not measured: reference: two," in text
    assert "- seeds 0, 1" in text
    assert "- 6 s of wall time in all, one thread per run" in text
    assert "- rounds: 3" in text


def test_the_same_measurements_give_the_same_files(toy: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_report(toy, find_experiment(toy), filled(tmp_path / name))
    for suffix in ("json", "md", "png"):
        assert (tmp_path / "a" / f"toy.{suffix}").read_bytes() == (tmp_path / "b" / f"toy.{suffix}").read_bytes()


def test_the_page_says_at_which_commits_its_runs_were_made(
    toy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed, digits in ((0, "bbb"), (1, "aaa")):
        monkeypatch.setattr("fleet.experiments.store.commit", lambda digits=digits: digits)
        store = filled(tmp_path / "out", seeds=(seed,))
    assert write_report(toy, find_experiment(toy), store)["commits"] == ["aaa", "bbb"]
    assert "\n- made at commit aaa, bbb\n- python" in (store.folder / "toy.md").read_text()


def test_remarks_below_the_table_of_an_index_stay(toy: str, tmp_path: Path) -> None:
    store, page = filled(tmp_path / "out"), tmp_path / "results"
    write_report(toy, find_experiment(toy), store, page=page)
    readme = page / "README.md"
    made = readme.read_text()
    readme.write_text(made + "\nMeasured on a **busy** machine.\n")
    write_report(toy, find_experiment(toy), store, page=page)
    assert readme.read_text() == made + "\nMeasured on a **busy** machine.\n"
