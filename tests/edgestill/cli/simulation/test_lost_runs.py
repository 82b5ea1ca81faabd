"""`edgestill simulate` with devices that diverge: a run says so, and ends where most of them do."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.local_defaults import auto_lr
from edge_agent.training.params import DEFAULTS
from edgestill.cli.main import main


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Ten classes of 28x28 bytes, dark but for two rows: networks without normalisation diverge on it."""
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=900)
    x = rng.integers(0, 40, (900, 1, 28, 28)).astype(np.uint8)
    for row in (0, 1):
        x[np.arange(900), :, 2 * y + 4 + row] += 150
    np.savez(tmp_path / "dark.npz", x=x, y=y)
    return tmp_path / "dark.npz"


def simulate(dataset: Path, folder: Path, *flags: str) -> tuple[int, dict[str, Any]]:
    words = ["simulate", "--dataset", dataset, "--devices", 4, "--prototypes", "fedrad_mlp:fp32", "--rounds", 2]
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in (*words, "--seed", 20, "--engine", "inline", "--out", folder, *flags)])
    assert isinstance(ended.value.code, int)
    return ended.value.code, json.loads((folder / "run.json").read_text())


def test_what_diverged_by_earlier_defaults_learns_by_those_of_today(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, facts = simulate(dataset, tmp_path / "now")
    assert code == 0
    assert "lost" not in capsys.readouterr().err
    last = facts["rounds"][-1]
    assert "lost" not in last
    assert last["prototypes"]["fedrad_mlp:fp32"]["devices"] == 4
    assert last["prototypes"]["fedrad_mlp:fp32"]["train_loss"] < 2.2  # guessing has 2.3
    assert facts["config"]["training"]["lr"] > 0  # a number


def test_an_absurd_learning_rate_ends_the_run_with_one_line_after_its_files_are_written(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--lr", "5", "--clip", "0", "--local-epochs", "2", "--quiet")
    code, facts = simulate(dataset, tmp_path / "then", *flags)
    assert code == 7
    few, line = capsys.readouterr().err.splitlines()
    assert few.startswith("warning: --local-epochs 2 is ")
    assert line.startswith("edgestill: round 1: 4 of 4 devices lost: sim-0, sim-1, sim-2, sim-3: training diverged: ")
    assert f"--lr is 5, try {DEFAULTS.lr:.3g}; and so does --clip {DEFAULTS.clip:g}, which is off" in line
    (only,) = facts["rounds"]
    assert [f"warning: {text}" for text in only["warnings"]] == [few]
    assert only["lost"].keys() == {"sim-0", "sim-1", "sim-2", "sim-3"}
    assert (tmp_path / "then" / "checkpoint" / "1.safetensors").exists()
    assert (tmp_path / "then" / "curves.png").exists()


def test_an_absurd_learning_rate_with_clipped_gradients_is_told_too(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = simulate(dataset, tmp_path / "clipped", "--lr", "100")
    said = capsys.readouterr().err
    assert code == 7 or "warning: round 1: local training does not converge" in said
    assert f"--lr is 100, try {DEFAULTS.lr:.3g}" in said


def test_the_resolved_numbers_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    def training(*flags: str) -> dict[str, Any]:
        with pytest.raises(SystemExit):
            main(["simulate", "--dry-run", *flags])
        return dict(json.loads(capsys.readouterr().out)["training"])

    assert training() == asdict(DEFAULTS)
    exact = training("--local-steps", "7", "--momentum", "0", "--batch-size", "8", "--clip", "0")
    assert (exact["steps"], exact["least_steps"], exact["most_steps"], exact["clip"]) == (7, 0, 0, 0.0)
    assert exact["lr"] == auto_lr(8, 0.0)
