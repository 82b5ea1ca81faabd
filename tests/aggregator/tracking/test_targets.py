"""Trackers by kind, and what is said of those that cannot be."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from aggregator.tracking.records import RoundRecord, TrackedRun
from aggregator.tracking.targets import Target, parse_targets
from core.errors import ConfigError

RUN = TrackedRun(name="run", settings={"lr": 0.1})
OWN = """
class Lines:
    def __init__(self, path, token):
        self.path, self.token = path, token or "first"
        self.file = open(path, "a")
    def log(self, record):
        print(record.round, sorted(record.metrics), file=self.file, flush=True)
    def close(self, *, complete):
        print("complete" if complete else "cut", file=self.file)
        self.file.close()

def open_lines(where, run, token):
    return Lines(where, token)

def broken(where, run, token):
    raise ZeroDivisionError("no")
"""


def test_a_target_is_written_as_it_was_given() -> None:
    (target,) = parse_targets(["mlflow:sqlite:///a.db"])
    assert target == Target("mlflow", "sqlite:///a.db")
    assert str(target) == "mlflow:sqlite:///a.db"


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        (["tensorbord:x"], r"^no tracker 'tensorbord'; did you mean 'tensorboard'\?$"),
        (["wandb:x"], r"^no tracker 'wandb'; known: tensorboard mlflow$"),
        (["mlflow"], r"^tracker 'mlflow': where is missing; write it like mlflow:http://127.0.0.1:5000$"),
        (["tensorboard:"], r"^tracker 'tensorboard:': where is missing; write it like tensorboard:runs$"),
        (["tensorboard:a\nb"], r"^tracker 'tensorboard:a\\nb': where is missing"),
        (["tensorboard:a", "tensorboard:a"], r"^tracker 'tensorboard:a' is given twice; give it once$"),
    ],
)
def test_what_cannot_be_is_one_line(texts: list[str], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        parse_targets(texts)


@pytest.mark.parametrize(
    ("missing", "target", "error"),
    [
        (
            "tensorboard",
            "tensorboard:x",
            "tracker tensorboard needs tensorboard; run: pip install 'edgestill[tensorboard]'",
        ),
        ("mlflow", "mlflow:http://h", "tracker mlflow needs mlflow; run: pip install 'edgestill[mlflow]'"),
        (
            "sqlalchemy",
            "mlflow:sqlite:///a",
            "tracker 'mlflow:sqlite:///a' is a database, which the client alone cannot open; run: pip install mlflow",
        ),
    ],
)
def test_a_missing_package_is_one_line_that_names_the_extra(
    missing: str, target: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr("aggregator.tracking.targets.find_spec", lambda name: None if name == missing else there(name))
    parse_targets([target])  # a file may be checked on another machine
    with pytest.raises(ConfigError, match=f"^{re.escape(error)}$"):
        parse_targets([target], installed=True)


def test_a_server_needs_no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aggregator.tracking.targets.find_spec", lambda name: name == "mlflow" or None)
    assert parse_targets(["mlflow:https://host"], installed=True)


def test_a_users_tracker_comes_by_entry_point(install: Callable[..., None], tmp_path: Path) -> None:
    install("lines = mytracking:open_lines\nbad = mytracking:broken", OWN)
    lines, bad = parse_targets([f"lines:{tmp_path / 'a'}", "bad"], installed=True)
    tracker = lines.open(RUN, None)
    tracker.log(RoundRecord(round=1, time=0.0, metrics={"x": 1}))
    tracker.close(complete=True)
    assert (tracker.token, (tmp_path / "a").read_text()) == ("first", "1 ['x']\ncomplete\n")
    with pytest.raises(ConfigError, match=r"of mine: tracker bad failed .ZeroDivisionError: no.$"):
        bad.open(RUN, None)


def test_names_of_ours_are_reserved(install: Callable[..., None]) -> None:
    install("mlflow = mytracking:open_lines")
    with pytest.raises(ConfigError, match=r"of mine: mlflow is a built-in tracker; rename the entry point$"):
        parse_targets(["mlflow:x"])
