"""`edgestill agent` and `edgestill keys` as a person types them."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from core.errors import ConfigError, DataError
from edge_agent.state.published import publish_model
from edgestill.cli.service import agent
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from quant.onnx.export import export_onnx
from tests.edge_agent.predict.boards import images, leave_model

ROOT = Path(__file__).resolve().parents[4]


def call(app, *args: object) -> str:
    result = CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


# ---- keys


# ---- agent predict


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board that has a model: its folder."""
    folder = tmp_path_factory.mktemp("board")
    arch, precision = parse_prototype("mlp:fp32")
    model = build(PrototypeSpec(arch, precision, (4,), 3, 8), generator=torch.Generator().manual_seed(0))
    (folder / "state").mkdir()
    export_onnx(model, torch.randn(2, 4, generator=torch.Generator().manual_seed(1)), folder / "state/current.onnx")
    (folder / "agent.toml").write_text(f"""
[agent]
fleet = "f"
device = "pi-1"
state_dir = "state"
[keys]
private = "pi.pem"
aggregator = "{"ab" * 32}"
[model]
prototype = "mlp:fp32"
[data]
path = "samples.npz"
""")
    np.save(folder / "x.npy", np.eye(4, dtype=np.float32))
    return folder


def test_predict_prints_a_class_per_input_and_writes_logits(board: Path) -> None:
    lines = call(agent.app, "predict", "--config", board / "agent.toml", "--input", board / "x.npy").split()
    facts = json.loads(
        call(agent.app, "predict", "--model", board / "state/current.onnx", "--input", board / "x.npy", "--json")
    )
    assert [int(line) for line in lines] == facts["classes"] == np.argmax(facts["logits"], axis=1).tolist()
    assert facts["labels"] == lines
    assert np.argmax(facts["probabilities"], axis=1).tolist() == facts["classes"]
    call(agent.app, "predict", "-c", board / "agent.toml", "--input", board / "x.npy", "--output", board / "y.out")
    assert np.load(board / "y.out").tolist() == facts["logits"]


def test_predict_wants_one_of_config_and_model(board: Path) -> None:
    result = CliRunner().invoke(agent.app, ["predict", "--input", str(board / "x.npy")])
    assert result.exit_code == 2


def test_predict_tells_what_is_wrong_with_the_inputs(board: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        call(agent.app, "predict", "-c", board / "agent.toml", "--input", board / "absent.npy")


def test_predict_wants_one_of_input_and_serve(board: Path) -> None:
    for more in ([], ["--input", str(board / "x.npy"), "--serve", "127.0.0.1:0"]):
        result = CliRunner().invoke(agent.app, ["predict", "--model", str(board / "state"), *more])
        assert result.exit_code == 2


def test_predict_prints_names_of_classes_and_takes_the_published_model(tmp_path: Path, board: Path) -> None:
    leave_model(tmp_path / "state")
    publish_model(tmp_path / "state", tmp_path / "out")
    np.save(tmp_path / "x.npy", images(3))
    (tmp_path / "agent.toml").write_text(
        (board / "agent.toml").read_text().replace("[model]", '[model]\npublish = "out"').replace('"state"', '"none"')
    )
    assert call(agent.app, "predict", "-c", tmp_path / "agent.toml", "--input", tmp_path / "x.npy").split() == [
        "ant",
        "bee",
        "cat",
    ]


def test_predict_writes_the_probabilities_of_a_raw_model(tmp_path: Path) -> None:
    leave_model(tmp_path)
    np.save(tmp_path / "x.npy", images(3))
    call(agent.app, "predict", "--model", tmp_path, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    assert np.load(tmp_path / "y.npy").sum(1) == pytest.approx([1, 1, 1])


def test_predict_serves_only_this_machine_unless_told_otherwise(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--allow-remote"):
        call(agent.app, "predict", "--model", tmp_path, "--serve", "0.0.0.0:9000")


def test_predict_serves_until_sigterm(tmp_path: Path) -> None:
    leave_model(tmp_path / "state")
    command = [sys.executable, "-m", "edgestill", "agent", "predict", "--model", str(tmp_path / "state")]
    process = subprocess.Popen(
        [*command, "--serve", f"unix:{tmp_path / 'p.sock'}"], stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert "serving" in process.stderr.readline()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "p.sock"))
            client.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert b'"status": "ok"' in b"".join(iter(lambda: client.recv(4096), b""))
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.wait()
    assert not (tmp_path / "p.sock").exists()


# ---- agent run


def test_run_refuses_a_wrong_config_before_anything_starts(board: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'threads'"):
        call(agent.app, "run", "--config", board / "agent.toml", "--set", "train.thread=2")
    assert not (board / "state" / "session").exists()
