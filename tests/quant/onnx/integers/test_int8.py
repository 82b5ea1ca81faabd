"""Static int8 for serving, on a small net trained on scikit-learn's digits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import TensorProto
from sklearn.datasets import load_digits
from torch import nn

from core.errors import ModelError
from quant.onnx.export import export_onnx
from quant.onnx.graph_check import parse_graph
from quant.onnx.integers.int8 import export_int8
from quant.onnx.session import max_difference, open_session, run_graph


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    images, labels = load_digits(return_X_y=True)
    return (images / 16).astype(np.float32).reshape(-1, 1, 8, 8), labels


@pytest.fixture(scope="module")
def fp32(digits: tuple[np.ndarray, np.ndarray]) -> bytes:
    """A net with BatchNorm, trained on the first 1,200 digits."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 16, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )
    x, y = torch.from_numpy(digits[0][:1200]), torch.from_numpy(digits[1][:1200])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(4):
        for rows in torch.randperm(1200).split(40):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
    return export_onnx(net, x[:4]).data


def test_the_int8_graph_keeps_the_classes_in_a_third_of_the_bytes(digits, fp32, tmp_path: Path):
    held_out = digits[0][1200:]
    int8 = export_int8(fp32, digits[0][:200], tmp_path / "int8.onnx", evaluation=held_out)
    assert int8.agreement >= 0.98
    assert int8.ratio < 0.35
    answers = [run_graph(open_session(data, fold=False), held_out) for data in (fp32, int8.data)]
    assert int8.difference == max_difference(*answers) > 0
    assert int8.agreement == np.mean(answers[0].argmax(1) == answers[1].argmax(1))
    assert (tmp_path / "int8.onnx").read_bytes() == int8.data
    initializers = parse_graph(int8.data).graph.initializer
    wide = [t for t in initializers if t.data_type == TensorProto.FLOAT and np.prod(t.dims) >= 1000]
    assert wide == []


def test_scales_are_per_channel(digits, fp32):
    int8 = export_int8(fp32, digits[0][:50])
    shapes = {tuple(t.dims) for t in parse_graph(int8.data).graph.initializer if t.data_type == TensorProto.FLOAT}
    assert {(16,), (32,), (64,), (10,)} <= shapes


def test_nothing_is_printed_and_the_logger_is_left_as_it_was(digits, fp32, capfd, caplog):
    export_int8(fp32, digits[0][:20])
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_a_calibration_batch_that_is_empty_or_of_another_shape_is_refused(digits, fp32):
    with pytest.raises(ModelError, match="calibration batch is empty"):
        export_int8(fp32, digits[0][:0])
    with pytest.raises(ModelError, match="quantizer failed"):
        export_int8(fp32, digits[0][:4, :, :4])


def test_a_graph_on_token_ids_is_refused():
    model = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(12, 2))
    data = export_onnx(model, torch.ones(2, 3, dtype=torch.int64)).data
    with pytest.raises(ModelError, match="one float32 input"):
        export_int8(data, np.ones((2, 3), np.float32))
