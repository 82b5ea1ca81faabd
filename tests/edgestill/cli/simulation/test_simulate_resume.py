"""`edgestill simulate`: a run that was cut goes on by `--resume`, and Ctrl-C leaves what there is."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgestill.cli.main import _run

ROOT = Path(__file__).resolve().parents[4]
FLAGS = ["--devices", "4", "--prototypes", "mlp:fp32", "--update", "predictor", "--local-steps", "2", "--quiet"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    path = tmp_path / "mine.npz"
    np.savez(path, x=(rng.normal(size=(120, 6)) + 2 * np.eye(6)[y]).astype(np.float32), y=y)
    return path


def facts(folder: Path) -> dict[str, Any]:
    """run.json without what may differ."""
    run: dict[str, Any] = json.loads((folder / "run.json").read_text())
    for name in ("engine", "workers", "batch_devices", "rounds"):
        run["config"].pop(name)
    for told in run["rounds"]:
        told.pop("seconds"), told.pop("seconds_by")
    return run


def test_a_resumed_run_ends_as_the_whole_one(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    start = ["simulate", "--dataset", str(data), *FLAGS]
    assert _run([*start, "--rounds", "3", "--engine", "inline", "--out", str(whole)], debug=True) == 0
    assert _run([*start, "--rounds", "1", "--engine", "inline", "--out", str(cut)], debug=True) == 0
    resume = ["simulate", "--resume", str(cut), "--quiet"]
    elsewhere = ["--engine", "processes", "--workers", "2", "--batch-devices", "off"]
    assert _run([*resume, "--rounds", "3", *elsewhere], debug=True) == 0
    assert facts(cut) == facts(whole)
    capsys.readouterr()
    assert _run([*resume, "--lr", "0.1"], debug=False) == 3
    assert "remove --lr" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("text", ["0", "-2", "some"])
def test_how_many_devices_train_together_is_a_number_or_a_word(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["simulate", f"--batch-devices={text}", "--dry-run"], debug=False) == 3
    assert f"--batch-devices '{text}': give auto, off, or how many devices" in capsys.readouterr().err


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_what_cannot_be_resumed_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["simulate", "--resume", str(tmp_path)], debug=False) == 4
    assert "not a readable run.json" in said(capsys)
    (tmp_path / "run.json").write_text('{"schema": 1}')
    assert _run(["simulate", "--resume", str(tmp_path)], debug=False) == 4
    assert "'config' is missing or is no dict; start a new run" in said(capsys)


def test_the_run_of_an_older_edgestill_is_not_mixed_with_todays_rounds(
    short: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its students learned otherwise by default; reports and sweeps still read it."""
    old = json.loads((short / "run.json").read_text()) | {"schema": 1}
    (short / "run.json").write_text(json.dumps(old))
    capsys.readouterr()
    assert _run(["simulate", "--resume", str(short), "--rounds", "3"], debug=False) == 3
    assert "a run of an older edgestill, whose 1-bit models" in said(capsys)


@pytest.fixture
def short(data: Path, tmp_path: Path) -> Path:
    """A run of two rounds."""
    folder = tmp_path / "short"
    start = ["simulate", "--dataset", str(data), *FLAGS, "--rounds", "2", "--engine", "inline"]
    assert _run([*start, "--out", str(folder)], debug=True) == 0
    return folder


def test_a_run_may_be_named_by_its_file_and_looked_at_first(short: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (short / "run.json").read_bytes()
    capsys.readouterr()
    assert _run(["simulate", "--resume", str(short / "run.json"), "--rounds", "3", "--dry-run"], debug=True) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["rounds"], shown["update"], shown["devices"]) == (3, "predictor", 4)
    assert (short / "run.json").read_bytes() == before
    assert _run(["simulate", "--resume", str(short / "run.json"), "--rounds", "3", "--quiet"], debug=True) == 0
    assert len(facts(short)["rounds"]) == 3


def test_a_run_has_no_fewer_rounds_than_it_has_done(short: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["simulate", "--resume", str(short), "--rounds", "1"], debug=False) == 3
    assert "has 2 rounds already; give more" in said(capsys)


def test_without_its_checkpoint_a_run_is_left_as_it_is(short: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (short / "run.json").read_bytes()
    shutil.rmtree(short / "checkpoint")
    assert _run(["simulate", "--resume", str(short), "--rounds", "3"], debug=False) == 4
    assert "run.json has 2 rounds, but there is no checkpoint to resume from" in said(capsys)
    assert (short / "run.json").read_bytes() == before


def test_a_round_that_was_written_by_hand_is_refused(short: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = json.loads((short / "run.json").read_text())
    run["rounds"][0]["seconds"] = "long"
    (short / "run.json").write_text(json.dumps(run))
    assert _run(["simulate", "--resume", str(short), "--rounds", "3"], debug=False) == 4
    assert "a round that cannot be read" in said(capsys)


def test_a_run_in_virtual_time_is_not_resumed(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--prototypes", "mlp:fp32", "--local-steps", "2", "--rounds", "1", "--virtual-clock", "--quiet"]
    folder = str(tmp_path / "boards")
    assert _run(["simulate", "--dataset", str(data), "--devices", "rpi4:3", *flags, "--out", folder], debug=True) == 0
    assert _run(["simulate", "--resume", folder, "--rounds", "2"], debug=False) == 3
    assert "in virtual time cannot be resumed" in said(capsys)


def test_ctrl_c_ends_the_workers_and_leaves_a_run_that_goes_on(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "edgestill", "simulate", "--dataset", str(data), *FLAGS, "--rounds", "100000"]
    process = subprocess.Popen(
        [*command, "--engine", "processes", "--workers", "2", "--out", str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a suite that was started in the background of a shell ignores it, and so would the command
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    while not list(folder.glob("checkpoint/[2-9].safetensors")):
        assert process.poll() is None, process.stderr and process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the workers get it too
    shown, said = process.communicate(timeout=120)
    assert (process.returncode, "interrupted" in said, "Traceback" in said) == (130, True, False)
    assert "mlp:fp32" in shown
    assert f"to resume: edgestill simulate --resume {folder}" in " ".join(shown.split())
    done = len(json.loads((folder / "run.json").read_text())["rounds"])
    assert (folder / "curves.png").exists()
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)  # nobody of the group is left
    assert _run(["simulate", "--resume", str(folder), "--quiet", "--rounds", str(done + 1)], debug=True) == 0
    assert len(facts(folder)["rounds"]) == done + 1
