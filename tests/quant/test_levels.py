"""NumPy's levels against those of the layers."""

import numpy as np
import pytest
import torch
from torch import nn

from core.errors import ModelError
from quant.layers import layers_for, quantized_weight
from quant.levels import quantized
from quant.precision import parse_precision


def weights(layer: nn.Module, seed: int) -> np.ndarray:
    """As published: float16 numbers."""
    with torch.no_grad():
        layer.weight.normal_(0.01, 0.3, generator=torch.Generator().manual_seed(seed)).copy_(layer.weight.half())
    return layer.weight.detach().numpy()


@pytest.mark.parametrize("precision", ["w1", "w2a2", "w4a4", "w8a8"])
@pytest.mark.parametrize("kind", ["conv", "linear"])
def test_levels_scale_and_mean_are_those_of_the_layer(precision: str, kind: str) -> None:
    layers = layers_for(parse_precision(precision))
    layer = layers.conv2d(5, 7, 3) if kind == "conv" else layers.linear(40, 11)
    for seed in range(20):
        w = weights(layer, seed)
        torchs = quantized_weight(layer)
        assert torchs is not None
        ours = quantized(w, torchs.bits, per_channel=torchs.scale.ndim > 0)
        assert np.array_equal(ours.levels, torchs.levels.numpy())
        assert ours.scale.dtype == torchs.scale.numpy().dtype
        assert np.allclose(ours.scale, torchs.scale.numpy(), rtol=3e-7, atol=0)
        assert (ours.mean is None) == (torchs.mean is None)
        if torchs.mean is not None:
            assert np.array_equal(ours.mean, torchs.mean.numpy())


@pytest.mark.parametrize("precision", ["w1", "w2a2", "w4a4", "w8a8"])
@pytest.mark.parametrize("value", [0.0, 1e-12, -1e-7, 60000.0])
def test_filters_of_one_number_are_those_of_the_layer_too(precision: str, value: float) -> None:
    layer = layers_for(parse_precision(precision)).linear(6, 3)
    with torch.no_grad():
        layer.weight.fill_(value)
    torchs = quantized_weight(layer)
    assert torchs is not None
    ours = quantized(layer.weight.detach().numpy(), torchs.bits, per_channel=torchs.scale.ndim > 0)
    assert np.array_equal(ours.dequantize(), torchs.dequantize().numpy())


def test_a_published_filter_of_two_values_differs_by_one_step_of_float16_at_most() -> None:
    """Half the difference of two float16 numbers is often just between two."""
    layer, rng = layers_for(parse_precision("w1")).linear(8, 3), np.random.default_rng(0)
    for _ in range(200):
        two = rng.normal(0, 0.2, 2).astype(np.float16)
        w = two[rng.integers(2, size=(3, 8))]
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(w))
        torchs, ours = quantized_weight(layer), quantized(w, 1, per_channel=True)
        assert torchs is not None
        assert torchs.mean is not None
        assert ours.mean is not None
        assert np.array_equal(ours.levels, torchs.levels.numpy())
        step = np.spacing(ours.scale)
        assert np.all(abs(ours.scale - torchs.scale.numpy()) <= step)
        difference = abs(ours.mean.astype(np.float32) - torchs.mean.numpy().astype(np.float32))
        assert np.all(difference <= step + np.spacing(np.abs(ours.mean)))


def test_float16_weights_are_taken_as_they_are() -> None:
    w = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float16)
    assert np.array_equal(
        quantized(w, 8, per_channel=True).levels, quantized(w.astype(np.float32), 8, per_channel=True).levels
    )


def test_more_than_one_bit_needs_a_scale_per_channel() -> None:
    with pytest.raises(ModelError, match="8 bits with one scale"):
        quantized(np.ones((2, 2), np.float32), 8, per_channel=False)
