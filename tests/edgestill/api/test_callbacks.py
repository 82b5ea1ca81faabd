"""Callbacks follow a run and may end it."""

from pathlib import Path
from typing import Any

import pytest

import edgestill as es
from core.errors import ConfigError
from edgestill.api.callbacks import Update, as_callback

FLEET: dict[str, Any] = {"devices": 3, "prototypes": "cnn:w1,mlp:fp32", "rounds": 3, "quiet": True}


class Notes(es.Callback):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_start(self, run: es.Run) -> None:
        self.seen.append(("start", len(run.rounds)))

    def on_update(self, update: Update) -> None:
        self.seen.append((update.round, update.device, update.prototype, update.examples > 0, len(update.state)))

    def on_round(self, run: es.Run, result: Any) -> None:
        assert run.rows[-1]["round"] == run.model("cnn:w1").round == result.round
        self.seen.append(("round", result.round))

    def on_end(self, run: es.Run) -> None:
        self.seen.append(("end", len(run.rounds)))


def test_every_event_is_told_in_order() -> None:
    notes = Notes()
    run = es.simulate(**{**FLEET, "rounds": 1}, callbacks=[notes], engine="processes", workers=2)
    start, first, second, third, done, end = notes.seen
    assert (start, done, end) == (("start", 0), ("round", 1), ("end", 1))
    assert [seen[:4] for seen in (first, second, third)] == [
        (1, "sim-0", "cnn:w1", True),
        (1, "sim-1", "mlp:fp32", True),
        (1, "sim-2", "cnn:w1", True),
    ]
    assert len(run.rounds) == 1


def test_following_a_run_changes_nothing() -> None:
    followed, alone = es.simulate(**FLEET, callbacks=[Notes]), es.simulate(**FLEET)
    assert followed.model("cnn:w1").digest == alone.model("cnn:w1").digest


def test_true_ends_the_run_after_the_round_and_its_files(tmp_path: Path) -> None:
    run = es.simulate(**FLEET, callbacks=[lambda run, result: result.round == 2], out=tmp_path / "run")
    assert (len(run.rounds), run.interrupted) == (2, False)
    assert len(es.load_run(tmp_path / "run").rounds) == 2


def fails(run: es.Run, result: Any) -> None:
    raise KeyError("lost")


def test_what_a_callback_raises_is_one_line_with_its_name() -> None:
    with pytest.raises(ConfigError, match=r"callback fails failed \(KeyError: 'lost'\)"):
        es.simulate(**FLEET, callbacks=[fails])


def test_what_is_no_callback_is_refused() -> None:
    with pytest.raises(ConfigError, match="give a function"):
        as_callback(3)
    with pytest.raises(ConfigError, match="on_update needs transport='memory'"):
        es.simulate(**FLEET, callbacks=[Notes], transport="mqtt")
