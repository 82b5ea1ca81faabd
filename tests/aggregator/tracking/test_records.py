"""What trackers are given."""

from __future__ import annotations

import math

from aggregator.tracking.records import RoundRecord, flat, of_prototype


def test_figures_that_are_not_finite_are_left_out() -> None:
    record = RoundRecord(round=1, time=0.0, metrics={"a": math.nan, "b": math.inf, "c": 2})
    assert record.metrics == {"c": 2.0}


def test_unknown_and_unlisted_figures_are_left_out() -> None:
    figures = {"accuracy": 0.5, "own_worst": 0.0, "loss": None, "extractor_round": 3.0}
    assert of_prototype("cnn:w1", figures) == {"accuracy/cnn.w1": 0.5, "own_worst/cnn.w1": 0.0}


def test_settings_become_one_table() -> None:
    settings = {"a": {"b": {"c": True}}, "list": [1, "x"], "none": None, "text": "t", "empty": {}}
    assert flat(settings) == {"a.b.c": True, "list": "1,x", "text": "t"}
