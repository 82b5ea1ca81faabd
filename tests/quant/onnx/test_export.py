"""Exporting: what must not change, what must not be lost, what must not be printed."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from core.errors import ModelError
from quant.layers import BinaryLayers, IntLayers, layers_for
from quant.onnx.export import export_onnx
from quant.onnx.freeze import packed_weights
from quant.onnx.graph_check import parse_graph
from quant.onnx.session import max_difference, open_session, run_graph
from quant.onnx.weights import convert_low_bits, patch_weights, read_weights
from quant.precision import PRECISIONS, parse_precision
from wire.tensors import Packed


def net(precision: str) -> nn.Sequential:
    """Convolution, norm, activation, dropout, linear."""
    torch.manual_seed(0)
    layers = layers_for(parse_precision(precision))
    return nn.Sequential(
        layers.conv2d(2, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        layers.activation(),
        nn.Dropout(0.5),
        nn.Flatten(),
        layers.linear(64, 3),
    )


X = torch.randn(4, 2, 4, 4, generator=torch.Generator().manual_seed(1))


def test_equal_tensors_are_not_merged():
    """Two fresh norms have equal weights, biases, means and variances; default exports keep one of each."""
    model = nn.Sequential(nn.BatchNorm2d(2), nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2), nn.Flatten()).eval()
    weights = read_weights(export_onnx(model, X).data)
    assert {
        f"{i}.{part}" for i in (0, 2) for part in ("weight", "bias", "running_mean", "running_var")
    } < weights.keys()
    np.testing.assert_array_equal(weights["1.weight"], model[1].weight.detach().numpy())  # nothing folded in


@pytest.mark.parametrize("precision", [str(p) for p in PRECISIONS])
def test_the_model_is_left_as_it_was(precision: str):
    model = net(precision).train()
    model[3].eval()  # a mode of its own
    state = copy.deepcopy(model.state_dict())
    modes = [m.training for m in model.modules()]
    grads = [p.requires_grad for p in model.parameters()]
    export_onnx(model, X)
    assert [m.training for m in model.modules()] == modes
    assert [p.requires_grad for p in model.parameters()] == grads
    assert not any(m._forward_hooks for m in model.modules())
    after = model.state_dict()
    assert list(after) == list(state)
    assert all(torch.equal(after[name], state[name]) for name in state)


def test_dropout_and_norms_are_exported_as_they_evaluate():
    model = net("fp32").train()
    data = export_onnx(model, X).data
    operators = {node.op_type for node in parse_graph(data).graph.node}
    assert "Dropout" not in operators
    with torch.no_grad():
        expected = model.eval()(X).numpy()
    assert max_difference(expected, run_graph(open_session(data), X.numpy())) < 1e-5


@pytest.mark.parametrize("precision", ["fp32", "w4a4", "w1a1"])
def test_exporting_says_nothing(precision: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture):
    model = net(precision)
    capfd.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export_onnx(model, X)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_without_compact_the_weights_are_float_and_equal():
    model = net("w1")
    loose, tight = (read_weights(export_onnx(model, X, compact=c).data) for c in (False, True))
    assert isinstance(tight["0.weight"], Packed)
    np.testing.assert_array_equal(loose["0.weight"], tight["0.weight"].dequantize())


@pytest.mark.parametrize("precision", ["w1", "w1a1", "w2a2"])
def test_int4_storage_answers_the_same_as_the_default(precision: str):
    model = net(precision)
    default, wide = export_onnx(model, X).data, export_onnx(model, X, low_bits="int4").data
    assert parse_graph(wide).opset_import[0].version == 21
    a, b = (run_graph(open_session(data), X.numpy()) for data in (default, wide))
    np.testing.assert_array_equal(a, b)
    assert convert_low_bits(default, "int4") == wide


def test_the_sign_of_minus_zero_is_the_layers():
    layers = BinaryLayers(parse_precision("w1a1"))
    model = nn.Sequential(layers.activation(), nn.Identity())
    x = torch.tensor([[0.0, -0.0], [1e-40, -1e-40], [float("inf"), -3.0]])
    exported = export_onnx(model, x)
    got = run_graph(open_session(exported.data), x.numpy())
    assert got.tolist() == [[1, -1], [1, -1], [1, -1]]
    assert exported.ties == 0


@pytest.mark.parametrize("value", [3.3, -2.1, 1e-6, 0.0])
@pytest.mark.parametrize("bits", [8, 4, 2])
def test_a_learned_scale_stays_a_weight_with_its_floor(bits: int, value: float):
    """Also where training has pushed it below the least scale, or through 0."""
    model = nn.Sequential(IntLayers(parse_precision(f"w{bits}a{bits}")).activation(), nn.Flatten())
    (name,) = model.state_dict()
    with torch.no_grad():
        model.state_dict()[name].fill_(value)
    x = torch.linspace(-1, 7, 999)[:, None]
    exported = export_onnx(model, x)
    assert exported.ties == 0
    np.testing.assert_array_equal(run_graph(open_session(exported.data), x.numpy()), model.eval()(x).detach().numpy())
    np.testing.assert_array_equal(read_weights(exported.data)[name], np.float32(value))


def test_a_template_follows_the_learned_scale():
    model = nn.Sequential(IntLayers(parse_precision("w4a4")).activation(), nn.Flatten())
    (name,) = model.state_dict()
    template = export_onnx(model, X).data
    patched = patch_weights(template, {name: np.array(1.5, np.float32)})
    with torch.no_grad():
        model.state_dict()[name].fill_(1.5)
    assert patched == export_onnx(model, X).data


def test_a_received_model_is_exported_with_the_levels_it_was_frozen_with():
    sent, received = net("w1"), net("w1")
    for a, b in zip(sent.modules(), received.modules(), strict=True):
        if hasattr(a, "quantize_weight"):
            b.freeze_weight(a.quantize_weight())
    assert export_onnx(received, X).data == export_onnx(sent, X).data


def test_a_frozen_weight_without_levels_is_exported_as_float():
    model = net("w1")
    model[0].freeze_weight()
    weights = read_weights(export_onnx(model, X).data)
    np.testing.assert_array_equal(weights["0.weight"], model[0].weight.detach().numpy())


def test_a_layer_can_be_a_model_of_its_own():
    layer = BinaryLayers(parse_precision("w1")).linear(3, 2)
    weights = read_weights(export_onnx(layer, torch.ones(2, 3)).data)
    assert weights["weight"] == packed_weights(layer)["weight"]
    assert weights.keys() == {"weight", "bias"}


def test_a_parameter_that_forward_does_not_use_is_named():
    model = net("fp32")
    model.register_parameter("spare", nn.Parameter(torch.ones(2)))
    with pytest.raises(ModelError, match="lost or renamed 'spare'; is it used in forward"):
        export_onnx(model, X)


def test_an_operator_that_onnx_has_not_is_told_in_one_line(capfd: pytest.CaptureFixture[str]):
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.copysign(torch.ones_like(x), x)

    with pytest.raises(ModelError, match=r"does not export to ONNX: .*copysign") as caught:
        export_onnx(Odd(), X)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_the_file_is_written_whole(tmp_path: Path):
    path = tmp_path / "net.onnx"
    exported = export_onnx(net("w1"), X, path)
    assert path.read_bytes() == exported.data
    assert [p.name for p in tmp_path.iterdir()] == ["net.onnx"]
