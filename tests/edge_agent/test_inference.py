"""Predicting with the model that the board keeps."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from core.errors import DataError, ModelError
from edge_agent.inference import load_inputs, predict
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from quant.onnx.export import export_onnx


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, torch.nn.Module]:
    arch, precision = parse_prototype("mlp:w1")
    made = build(PrototypeSpec(arch, precision, (1, 4, 4), 3, 8), generator=torch.Generator().manual_seed(0))
    path = tmp_path_factory.mktemp("model") / "current.onnx"
    export_onnx(made, torch.randn(2, 1, 4, 4, generator=torch.Generator().manual_seed(1)), path)
    return path, made.eval()


def inputs(n: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 1, 4, 4)).astype(np.float32)


@pytest.mark.parametrize("n", [1, 64, 130])
def test_the_logits_are_those_of_the_trained_model(model: tuple, n: int) -> None:
    path, module = model
    logits = predict(path, inputs(n))
    assert logits.shape == (n, 3)
    with torch.no_grad():
        assert np.abs(logits - module(torch.from_numpy(inputs(n))).numpy()).max() < 1e-5


def test_inputs_of_another_shape_are_told_what_is_wanted(model: tuple) -> None:
    with pytest.raises(DataError, match=r"takes \(1, 4, 4\)"):
        predict(model[0], np.zeros((2, 16), np.float32))


def test_a_board_without_a_model_yet_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="after its first round"):
        predict(tmp_path / "current.onnx", inputs(1))


def test_inputs_come_from_an_npy_file(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", inputs(2).astype(np.float64))
    assert load_inputs(tmp_path / "x.npy").dtype == np.float32
    np.save(tmp_path / "flat.npy", np.zeros(3))
    with pytest.raises(DataError, match="N inputs"):
        load_inputs(tmp_path / "flat.npy")
    (tmp_path / "text.npy").write_text("hello")
    with pytest.raises(DataError, match="not a readable"):
        load_inputs(tmp_path / "text.npy")
    with pytest.raises(DataError, match="No such file"):
        load_inputs(tmp_path / "absent.npy")


def test_predicting_needs_no_torch(model: tuple, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", inputs(2))
    code = (
        "import sys; from pathlib import Path; from edge_agent.inference import load_inputs, predict; "
        f"print(predict(Path({str(model[0])!r}), load_inputs(Path({str(tmp_path / 'x.npy')!r}))).shape, "
        "'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "(2, 3) False\n"
