"""`es.simulate`, and that it is the command line's run: the same bits, in as little time, whatever the threads."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import edgestill as es
from core.processes.python_child import import_path
from edgestill.cli.main import main
from fleet.simulation import run as runner

FLEET: dict[str, Any] = {"devices": 4, "prototypes": ["cnn:fp32", "cnn:w1"], "rounds": 2, "seed": 3}
FLAGS = ["--devices", "4", "--prototypes", "cnn:fp32,cnn:w1", "--rounds", "2", "--seed", "3"]


def digests(run: es.Run) -> dict[str, str]:
    return {name: run.model(name).digest for name in run.prototypes}


def by_command(folder: Path, *flags: str) -> es.Run:
    with pytest.raises(SystemExit) as left:
        main(["simulate", *FLAGS, *flags, "--out", str(folder), "--quiet"])
    assert left.value.code == 0
    return es.load_run(folder)


@pytest.mark.parametrize("engine", ["inline", "processes"])
def test_equal_seeds_give_the_bits_of_the_command_line(tmp_path: Path, engine: str) -> None:
    run = es.simulate(**FLEET, engine=engine, workers=2, quiet=True)
    assert digests(run) == digests(by_command(tmp_path / "cli"))
    assert digests(run) != digests(es.simulate(**{**FLEET, "seed": 4}, engine="inline", quiet=True))


@pytest.mark.slow
def test_a_fleet_over_mqtt_has_the_same_models(tmp_path: Path) -> None:
    run = es.simulate(**FLEET, transport="mqtt", quiet=True)
    assert digests(run) == digests(es.simulate(**FLEET, quiet=True))


def test_a_distilling_run_in_virtual_time_has_models_too() -> None:
    run = es.simulate(**{**FLEET, "rounds": 1}, recipe="feddf", fusion={"steps": 3}, virtual_clock=True, quiet=True)
    assert run.rounds[0].virtual
    assert run.model("cnn:w1").round == 1


def test_what_out_holds_is_what_was_returned_and_it_resumes(tmp_path: Path) -> None:
    first = es.simulate(**FLEET, out=tmp_path / "run", quiet=True)
    assert digests(es.load_run(tmp_path / "run")) == digests(first)
    more = es.simulate(**{**FLEET, "rounds": 3}, out=tmp_path / "run", resume=True, quiet=True)
    assert [result.round for result in more.rounds] == [1, 2, 3]
    assert digests(more) == digests(es.simulate(**{**FLEET, "rounds": 3}, quiet=True))
    with pytest.raises(es.EdgestillError, match="holds a run with another configuration"):
        es.simulate(**{**FLEET, "seed": 9}, out=tmp_path / "run", quiet=True)


def interrupted(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Ctrl-C in the round after `after`."""
    rounds = runner._rounds_in_memory

    def cut(*args: Any) -> Any:
        for result in rounds(*args):
            if result.round > after:
                signal.raise_signal(signal.SIGINT)
            yield result

    monkeypatch.setattr(runner, "_rounds_in_memory", cut)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let their background jobs ignore it


def test_ctrl_c_at_a_prompt_returns_the_rounds_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = es.simulate(**{**FLEET, "rounds": 1}, quiet=True)
    interrupted(monkeypatch, 1)
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    run = es.simulate(**{**FLEET, "rounds": 5}, engine="inline", quiet=True)
    assert (run.interrupted, len(run.rounds), run.model("cnn:w1").round) == (True, 1, 1)
    assert digests(run) == digests(whole)
    assert "interrupted" in repr(run)


def test_ctrl_c_in_a_script_raises_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt) as caught:
        es.simulate(**{**FLEET, "rounds": 5}, engine="inline", quiet=True)
    run = getattr(caught.value, "run")  # noqa: B009
    assert (run.interrupted, len(run.rounds)) == (True, 1)


def test_progress_is_a_line_per_round_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    es.simulate(**FLEET)
    assert [line.split()[:2] for line in capfd.readouterr().err.splitlines()] == [["round", "1/2"], ["round", "2/2"]]
    es.simulate(**FLEET, quiet=True)
    assert capfd.readouterr().err == ""


THREADS = """
import json, sys, torch
import edgestill as es
torch.set_num_threads(2)
x = torch.randn(400, 400, requires_grad=True)
(x @ x).sum().backward()  # two threads have worked, and a backward pass has run, before the workers are forked
run = es.simulate(**json.loads(sys.argv[1]), quiet=True)
print(json.dumps({"threads": torch.get_num_threads(), **{n: run.model(n).digest for n in run.prototypes}}))
"""


def test_threads_of_the_program_around_change_nothing() -> None:
    env = {key: value for key, value in os.environ.items() if key not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", THREADS, json.dumps(FLEET)],
        capture_output=True,
        text=True,
        check=False,
        env={**env, "PYTHONPATH": import_path()},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"threads": 2, **digests(es.simulate(**FLEET, quiet=True))}
