"""`edgestill simulate`: mistakes in one line, files, streams, and Ctrl-C."""

import json
import os
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from edgestill.cli.main import main
from tests.edgestill.cli.typed import edgestill, run
from tests.transport.events import eventually

SMALL = ["simulate", "--devices", "3", "--prototypes", "mlp:fp32,cnn:w1", "--rounds", "2", "--local-steps", "3"]


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["--dataset", "nope"], 3, "unknown dataset 'nope'"),
        (["--prototypes", "cn:w1"], 3, "did you mean 'cnn'?"),
        (["--prototypes", "cnn:w9"], 3, "unknown precision 'w9'"),
        (["--recipe", "fedvag"], 3, "did you mean 'fedavg'?"),
        (["--partition", "irchlet"], 3, "unknown partition"),
        (["--devices", "2", "--prototypes", "cnn:fp32,mlp:fp32,cnn:w1"], 3, "2 devices for 3 prototypes"),
        (["--devices", "5000"], 3, "devices"),
        (["--local-epochs", "1", "--local-steps", "1"], 3, "either"),
        (["--out", "/proc/nowhere/run"], 3, "choose another folder"),
        (["--latent", "0"], 3, "--latent 0; give at least 1"),
        (["--seed", "-1"], 3, "seed -1"),
    ],
)
def test_a_mistake_in_a_simulation_is_one_line(
    args: list, code: int, words: str, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["simulate", *args])
    assert stopped.value.code == code
    errors = capsys.readouterr().err
    assert words in errors
    assert errors.startswith("edgestill: ")
    assert errors.count("\n") == 1


def test_a_small_simulation_writes_its_run_and_its_curves(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    code, out, err = run(capsys, *SMALL, "--out", tmp_path / "run")
    assert code == 0, err
    assert "round 2/2" in err
    assert "cnn:w1" in out
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert [r["round"] for r in facts["rounds"]] == [1, 2]
    assert set(facts["rounds"][0]["prototypes"]) == {"mlp:fp32", "cnn:w1"}
    assert (tmp_path / "run" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["checkpoint", "curves.png", "run.json"]
    code, _, err = run(capsys, *SMALL, "--seed", "1", "--out", tmp_path / "run")
    assert code == 3
    assert "another configuration" in err


def test_json_alone_goes_to_stdout() -> None:
    done = edgestill(*SMALL, "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["rounds"]) == 2
    few, guessing = done.stderr.splitlines()  # no progress, and the two things to look at
    assert few.startswith("warning: --local-steps 3 is 3 local steps a round, the default would be 50")
    assert guessing.startswith("warning: after the last round, ")
    assert few == f"warning: {json.loads(done.stdout)['rounds'][0]['warnings'][0]}"


@pytest.mark.slow  # tests/e2e compares the same two ways, over TLS
def test_processes_over_mqtt_give_the_same_numbers_as_one_process(tmp_path: Path) -> None:
    def results(transport: str) -> list[dict]:
        done = edgestill(*SMALL, "--rounds", "1", "--transport", transport, "--json", "--out", tmp_path / transport)
        assert done.returncode == 0, done.stderr
        return [r["prototypes"] for r in json.loads(done.stdout)["rounds"]]

    memory, mqtt = results("memory"), results("mqtt")
    for one, other in zip(memory, mqtt, strict=True):
        for name, scores in one.items():
            assert {k: other[name][k] for k in ("accuracy", "loss", "devices")} == {
                k: scores[k] for k in ("accuracy", "loss", "devices")
            }
            assert abs(other[name]["bytes_up"] - scores["bytes_up"]) < 200 * scores["devices"]  # metrics in the header
    assert (tmp_path / "mqtt" / "fleet" / "sim-0" / "state" / "current.onnx").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--broker", "127.0.0.1:1"], "--broker requires --transport mqtt"),
        (["--transport", "pigeon"], "transport 'pigeon'; known: memory mqtt"),
        (["--transport", "mqtt", "--broker", "nowhere"], "HOST:PORT"),
        (["--transport", "mqtt", "--floats", "fp16"], "--floats requires --transport memory"),
    ],
)
def test_a_mistake_about_the_transport_is_one_line(args: list, words: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["simulate", *args])
    assert stopped.value.code == 3
    assert words in capsys.readouterr().err


def test_no_broker_is_told_at_once(capsys: pytest.CaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(SystemExit) as stopped:
        main([*SMALL, "--transport", "mqtt", "--broker", f"127.0.0.1:{port}"])
    assert stopped.value.code == 8
    assert f"no broker at 127.0.0.1:{port}: connection refused" in capsys.readouterr().err


def test_ctrl_c_leaves_the_rounds_that_are_done(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "edgestill", *SMALL, "--rounds", "2000", "--out", str(tmp_path)]
    listening = partial(signal.signal, signal.SIGINT, signal.default_int_handler)  # a shell's `&` has it ignored
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, preexec_fn=listening, **pipes) as process:
        assert eventually((tmp_path / "run.json").exists, 120)
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors
    assert json.loads((tmp_path / "run.json").read_text())["rounds"]
    assert (tmp_path / "curves.png").exists()
