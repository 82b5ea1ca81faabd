"""A simulated fleet whose devices diverge: a run says so, and ends where most of them do."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.local_defaults import auto_lr
from edge_agent.training.params import DEFAULTS
from edgestill.cli.lost_devices import LostDevices, LostRunError
from edgestill.cli.main import main
from fleet.results.run_file import PrototypeResult, RoundResult, Run

TRAINING = {**asdict(DEFAULTS), "lr": 0.5}
WHY = "training diverged: the gradient is not finite"


def result(number: int, lost: int, asked: int = 20, train_loss: float | None = 1.0) -> RoundResult:
    fused = PrototypeResult(
        accuracy=0.5, loss=1.0, train_loss=train_loss, devices=asked - lost, bytes_up=1, bytes_down=1
    )
    return RoundResult(
        round=number, prototypes={"mlp:fp32": fused}, seconds=1.0, lost={f"sim-{n:02}": WHY for n in range(lost)}
    )


def run_of(*rounds: RoundResult) -> Run:
    return Run(config={"training": TRAINING}, fleet=[{"labels": [1] * 10}], rounds=list(rounds))


def warnings(capsys: pytest.CaptureFixture[str], *rounds: RoundResult) -> list[str]:
    watch = LostDevices(TRAINING)
    for one in rounds:
        watch.look(one, run_of(*rounds))
    return capsys.readouterr().err.splitlines()


def test_up_to_a_tenth_is_not_worth_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert warnings(capsys, result(1, 2), result(2, 0), result(3, 0, asked=0)) == []


def test_more_is_told_once_with_the_remedy_and_again_when_it_is_others(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = warnings(capsys, result(1, 3), result(2, 3), result(3, 4), result(4, 4))
    assert first == (
        f"warning: round 1: 3 of 20 devices lost: sim-00, sim-01, sim-02: {WHY}; where training diverges, "
        f"a smaller learning rate helps: --lr is 0.5, try {DEFAULTS.lr:.3g}"
    )
    assert second == f"warning: round 3: 4 of 20 devices lost: sim-00, sim-01, sim-02, sim-03: {WHY}"


def test_half_is_a_warning_and_more_than_half_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(warnings(capsys, result(1, 10))) == 1
    run = run_of(result(1, 11))
    with pytest.raises(
        LostRunError, match=r"round 1: 11 of 20 devices lost: .* and 7 more: .* --lr is 0\.5, try"
    ) as ended:
        LostDevices(TRAINING).look(run.rounds[0], run)
    assert ended.value.exit_code == 7
    assert ended.value.run is run


def test_a_loss_beyond_all_bounds_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = warnings(
        capsys, result(1, 0, train_loss=20.0), result(2, 0, train_loss=1e5), result(3, 0, train_loss=2e5)
    )
    assert line.startswith("warning: round 2: local training does not converge, its loss is mlp:fp32 1e+05; where")


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
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("edgestill: round 1: 4 of 4 devices lost: sim-0, sim-1, sim-2, sim-3: training diverged: ")
    assert f"--lr is 5, try {DEFAULTS.lr:.3g}; and so does --clip {DEFAULTS.clip:g}, which is off" in line
    (only,) = facts["rounds"]
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
