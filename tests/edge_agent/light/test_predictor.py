"""The NumPy predictor against the torch layers."""

import numpy as np
import pytest
import torch

from core.errors import ModelError
from edge_agent.light.predictor import LightPredictor
from quant.layers import layers_for
from quant.pack import pack
from quant.precision import parse_precision
from wire.tensors.packed import Packed


def layer(precision: str) -> torch.nn.Module:
    torch.manual_seed(4)
    return torch.nn.ModuleDict({"predictor": layers_for(parse_precision(precision)).linear(6, 3)})


def light(net: torch.nn.Module, precision: str) -> LightPredictor:
    tensors = {name: value.detach().numpy() for name, value in net.state_dict().items()}
    return LightPredictor.from_tensors(tensors, parse_precision(precision))


@pytest.mark.parametrize("precision", ["fp32", "w1", "w1a1"])
def test_logits_and_gradients_are_those_of_the_layer(precision: str) -> None:
    net = layer(precision)
    z = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    of_logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    logits = net["predictor"](z)  # type: ignore[index]
    expected = torch.autograd.grad(logits, list(net.parameters()), of_logits)
    ours = light(net, precision)
    np.testing.assert_allclose(ours.logits(z.numpy()), logits.detach().numpy(), rtol=1e-5, atol=1e-6)
    for a, b in zip(ours.gradients(z.numpy(), of_logits.numpy()), expected, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("floats", ["fp16", "fp32"])
@pytest.mark.parametrize("precision", ["fp32", "w1"])
def test_what_is_packed_is_what_torch_packs(precision: str, floats: str) -> None:
    net = layer(precision)
    theirs, ours = pack(net, floats=floats), light(net, precision).pack(floats)
    assert theirs.keys() == ours.keys()
    for name, value in theirs.items():
        mine = ours[name]
        if isinstance(value, Packed):
            assert isinstance(mine, Packed)
            assert mine.bits == 1
            assert np.array_equal(mine.levels, value.levels)
            assert np.array_equal(mine.scale, value.scale)
            assert np.array_equal(mine.mean, value.mean)
        else:
            assert not isinstance(mine, Packed)
            assert mine.dtype == value.dtype
            assert np.array_equal(mine, value)


def test_a_packed_predictor_computes_what_the_device_computed() -> None:
    ours = light(layer("w1"), "w1")
    packed = ours.pack("fp16")["predictor.weight"]
    assert isinstance(packed, Packed)
    assert np.array_equal(packed.dequantize(), ours.effective_weight())


def test_predictors_of_more_bits_are_trained_and_sent_as_floats() -> None:
    net = layer("fp32")
    assert not isinstance(light(net, "w8a8").pack("fp16")["predictor.weight"], Packed)


def test_a_predictor_that_is_not_linear_is_refused() -> None:
    with pytest.raises(ModelError, match=r"predictor\.weight"):
        LightPredictor.from_tensors({}, parse_precision("fp32"))
    odd = {"predictor.weight": np.zeros((2, 3, 4), np.float32), "predictor.bias": np.zeros(2, np.float32)}
    with pytest.raises(ModelError, match="linear"):
        LightPredictor.from_tensors(odd, parse_precision("fp32"))
