"""Processes side by side: how many, what they say, what a failure does."""

from __future__ import annotations

from pathlib import Path

from fleet.jobs import Job, Progress, run_jobs


def job(folder: Path, name: str, code: str) -> Job:
    return Job(key=name, arguments=("-c", code), log=folder / f"{name}.log")


def test_no_more_than_asked_for_run_at_once_and_all_are_done(tmp_path: Path) -> None:
    seen = list[Progress]()
    jobs = [job(tmp_path, str(n), f"print('job {n}')") for n in range(3)]
    assert run_jobs(jobs, at_once=1, show=seen.append) == {}
    assert max(len(progress.running) for progress in seen) == 1
    assert [p.ended[0] for p in seen if p.ended] == ["0", "1", "2"]
    assert (seen[-1].done, seen[-1].total) == (3, 3)
    assert [(tmp_path / f"{n}.log").read_text() for n in range(3)] == ["job 0\n", "job 1\n", "job 2\n"]


def test_a_failure_is_told_by_the_last_line_and_stops_nothing(tmp_path: Path) -> None:
    jobs = [
        job(tmp_path, "bad", "print('starting'); raise SystemExit('no such thing')"),
        job(tmp_path, "mute", "raise SystemExit(3)"),
        job(tmp_path, "good", "print('fine')"),
    ]
    assert run_jobs(jobs, at_once=3, show=lambda _: None) == {"bad": "no such thing", "mute": "exit code 3"}


def test_children_have_one_thread_and_find_our_packages(tmp_path: Path) -> None:
    code = "import os, wire; print(os.environ['OMP_NUM_THREADS'])"
    assert run_jobs([job(tmp_path, "a", code)], at_once=1, show=lambda _: None) == {}
    assert (tmp_path / "a.log").read_text() == "1\n"


def test_no_jobs_are_no_work() -> None:
    assert run_jobs([], at_once=2, show=lambda _: None) == {}
