"""Runs in processes: kept, resumed, reported; a failure stops nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.experiments.runner import Progress, run_all
from fleet.experiments.store import Store, Work
from tests.transport.events import eventually

ROOT = Path(__file__).resolve().parents[3]


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


def test_ctrl_c_ends_the_runs_too(toy: str, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    command = subprocess.Popen(
        [sys.executable, "-m", "edgestill", "experiment", toy, "--fidelity", "paper", "--out", str(tmp_path / "out")],
        stderr=subprocess.PIPE,
        env={**os.environ, "TOY_WAITS": str(marks), "PYTHONPATH": f"{os.environ['PYTHONPATH']}{os.pathsep}{ROOT}"},
    )
    assert eventually(lambda: len(list(marks.iterdir())) == 2, 120)
    children = [int(mark.name) for mark in marks.iterdir()]
    command.send_signal(signal.SIGTERM)
    command.communicate(timeout=120)
    assert command.returncode == 130
    assert len(children) == 2
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
