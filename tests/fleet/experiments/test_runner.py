"""Runs in processes: kept, resumed, reported; a failure stops nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.errors import ConfigError, DataError
from fleet.experiments.registry import find_experiment
from fleet.experiments.report import collect, write_report
from fleet.experiments.runner import Progress, run_all
from fleet.experiments.store import Store, Work

ROOT = Path(__file__).resolve().parents[3]


def filled(folder: Path, seeds: tuple[int, ...] = (0, 1), fidelity: str = "paper") -> Store:
    """A store as if the toy's runs had been made."""
    store = Store(folder)
    store.make()
    for seed in seeds:
        store.write(Work("two", fidelity, seed), {"value": 2 + seed}, 1.5)
        store.write(Work("seven/of 9", fidelity, seed), {"value": 7 + seed}, 1.5)
    return store


def test_runs_are_made_in_processes_and_kept(toy: str, tmp_path: Path) -> None:
    store, seen = Store(tmp_path / "out"), list[Progress]()
    store.make()
    works = [Work("two", "paper", 1), Work("seven/of 9", "reference", 0)]
    assert run_all(toy, works, store, jobs=2, show=seen.append) == {}
    values = [store.read(work) for work in works]
    assert [kept and kept["facts"] for kept in values] == [{"value": 3}, {"value": 107}]
    assert store.log(works[0]).read_text() == "counting to 2\n"
    assert seen[-1].done == seen[-1].total == 2
    assert {p.ended[0] for p in seen if p.ended} == set(works)


def test_a_run_that_fails_says_why_and_the_others_go_on(toy: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    store.make()
    bad, good = Work("seven/of 9", "paper", 13), Work("two", "paper", 13)
    assert run_all(toy, [bad, good], store, jobs=1, show=lambda _: None) == {bad: "seed 13 is unlucky; choose another"}
    assert store.read(bad) is None
    assert store.read(good) is not None


def test_a_run_s_name_never_collides_with_another_s_file() -> None:
    stems = {Work(name, "paper", 0).stem for name in ("a/b", "a b", "a.b", "a%b", "a_b", "a+b")}
    assert len(stems) == 6
    assert not any("/" in stem for stem in stems)


def test_seeds_of_a_cell_are_those_that_all_its_runs_have(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.write(Work("two", "paper", 5), {"value": 1}, 1.0)
    assert store.seeds("paper", ["two"]) == [0, 1, 5]
    assert store.seeds("paper", ["two", "seven/of 9"]) == [0, 1]
    assert store.seeds("reference", ["two"]) == []


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.path(Work("two", "paper", 0)).write_text("{")
    with pytest.raises(DataError, match=r"two\.paper\.0\.json: not readable .* measured again"):
        store.read(Work("two", "paper", 0))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="choose another folder"):
        Store(tmp_path / "file").make()


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


def test_the_page_says_at_which_commits_its_runs_were_made(
    toy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed, digits in ((0, "bbb"), (1, "aaa")):
        monkeypatch.setattr("fleet.experiments.store.commit", lambda digits=digits: digits)
        store = filled(tmp_path / "out", seeds=(seed,))
    assert write_report(toy, find_experiment(toy), store)["commits"] == ["aaa", "bbb"]
    assert "\n- made at commit aaa, bbb\n- python" in (store.folder / "toy.md").read_text()


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
    assert "2 of 3 targets are met. Missed: paper: small: 2.50 where <= 1 was asked for." in text
    assert "Not measured: reference: two," in text
    assert "- seeds 0, 1" in text
    assert "- 6 s of wall time in all, one thread a run" in text
    assert "- rounds: 3" in text


def test_the_same_measurements_give_the_same_files(toy: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_report(toy, find_experiment(toy), filled(tmp_path / name))
    for suffix in ("json", "md", "png"):
        assert (tmp_path / "a" / f"toy.{suffix}").read_bytes() == (tmp_path / "b" / f"toy.{suffix}").read_bytes()


def test_ctrl_c_ends_the_runs_too(toy: str, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    command = subprocess.Popen(
        [sys.executable, "-m", "edgestill", "experiment", toy, "--fidelity", "paper", "--out", str(tmp_path / "out")],
        stderr=subprocess.PIPE,
        env={**os.environ, "TOY_WAITS": str(marks), "PYTHONPATH": f"{os.environ['PYTHONPATH']}{os.pathsep}{ROOT}"},
    )
    deadline = time.monotonic() + 60
    while len(list(marks.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    children = [int(mark.name) for mark in marks.iterdir()]
    command.send_signal(signal.SIGTERM)
    command.communicate(timeout=60)
    assert command.returncode == 130
    assert len(children) == 2
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
