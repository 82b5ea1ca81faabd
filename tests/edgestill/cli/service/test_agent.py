"""`edgestill agent` and `edgestill keys` as a person types them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from core.errors import ConfigError, DataError
from edgestill.cli.service import agent
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from quant.onnx.export import export_onnx


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
    call(agent.app, "predict", "-c", board / "agent.toml", "--input", board / "x.npy", "--output", board / "y.out")
    assert np.load(board / "y.out").tolist() == facts["logits"]


def test_predict_wants_one_of_config_and_model(board: Path) -> None:
    result = CliRunner().invoke(agent.app, ["predict", "--input", str(board / "x.npy")])
    assert result.exit_code == 2


def test_predict_tells_what_is_wrong_with_the_inputs(board: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        call(agent.app, "predict", "-c", board / "agent.toml", "--input", board / "absent.npy")


# ---- agent run


def test_run_refuses_a_wrong_config_before_anything_starts(board: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'threads'"):
        call(agent.app, "run", "--config", board / "agent.toml", "--set", "train.thread=2")
    assert not (board / "state" / "session").exists()
