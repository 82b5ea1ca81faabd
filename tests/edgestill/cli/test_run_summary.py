"""What a run has come to, as people read it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from edgestill.cli.run_summary import print_summary
from fleet.results.run_file import PrototypeResult, RoundResult, Run


def result(number: int, accuracy: float, **more: Any) -> RoundResult:
    fused = PrototypeResult(
        accuracy=accuracy, loss=1.0, train_loss=1.0, devices=2, bytes_up=4000, bytes_down=8000, **more
    )
    return RoundResult(round=number, prototypes={"mlp:fp32": fused}, seconds=1.0)


def shown(capsys: pytest.CaptureFixture[str], *rounds: RoundResult) -> str:
    print_summary(Run(config={}, fleet=[], rounds=list(rounds)))
    return capsys.readouterr().out


def test_the_last_round_that_was_scored_is_shown_and_the_best(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, result(1, 0.9), result(2, 0.8), result(3, math.nan))
    assert "after round 2" in text
    assert "80.0 %" in text
    assert "90.0 %" in text
    assert "3 rounds in 3.0 s" in text


def test_a_run_that_was_cut_before_any_score_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, result(1, math.nan))
    assert "no round was scored yet" in text
    assert "1 rounds in 1.0 s" in text


def test_best_is_that_of_the_devices_own_models_where_they_keep_some(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, result(1, 0.1, device_accuracy=0.7), result(2, 0.2, device_accuracy=0.6))
    assert "70.0 %" in text
    assert "60.0 %" in text


def test_the_headline_of_a_quantized_prototype_is_what_boards_run(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, result(1, 0.7, accuracy_float=0.9))
    head, row = (next(line for line in text.splitlines() if word in line) for word in ("devices", "mlp:fp32"))
    assert row.index("70.0 %") < row.index("90.0 %")
    assert head.index("accuracy") < head.index("float weights") < head.index("best")
    assert row.count("70.0 %") == 2, "best goes by it too"


def test_the_size_of_a_generator_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    guided = RoundResult(round=1, prototypes=result(1, 0.5).prototypes, seconds=1.0, side_artifact_bytes=41_000)
    assert "41.0 kB" in shown(capsys, guided)
    assert guided.to_json()["side_artifact_bytes"] == 41_000
    assert RoundResult.from_json(guided.to_json()).side_artifact_bytes == 41_000


def test_what_was_lost_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    why = "training diverged: the gradient is not finite"
    first, last = (replace(result(n, 0.5), lost=lost) for n, lost in ((1, {"sim-1": why}), (2, {"sim-2": why})))
    assert f"round 1: 1 of 3 devices lost: sim-1: {why}" in shown(capsys, first, result(2, 0.6))
    text = shown(capsys, first, last)
    assert f"2 updates lost, of sim-1, sim-2; the last in round 2: 1 of 3 devices lost: sim-2: {why}" in text
    assert "lost" not in shown(capsys, result(1, 0.5))
