"""value = mean + scale * level, in this order, per tensor or per output channel."""

from __future__ import annotations

import torch

from quant.quantized_weight import QuantWeight


def test_a_scale_per_channel_spreads_over_the_first_dimension() -> None:
    levels = torch.tensor([[1, -1], [0, 3]], dtype=torch.int8)
    q = QuantWeight(bits=4, levels=levels, scale=torch.tensor([0.5, 2.0]))
    assert q.dequantize().tolist() == [[0.5, -0.5], [0.0, 6.0]]


def test_a_scalar_scale_and_mean_hold_for_the_whole_tensor() -> None:
    levels = torch.tensor([[1, -1], [-1, 1]], dtype=torch.int8)
    q = QuantWeight(bits=1, levels=levels, scale=torch.tensor(0.25).half(), mean=torch.tensor(1.0).half())
    assert q.dequantize().tolist() == [[1.25, 0.75], [0.75, 1.25]]
    assert q.dequantize().dtype == torch.float32


def test_float16_scale_and_mean_are_widened_before_they_are_added() -> None:
    """In float16, 2048 + 1 would be 2048."""
    levels = torch.ones(1, 1, dtype=torch.int8)
    q = QuantWeight(bits=1, levels=levels, scale=torch.tensor([1.0]).half(), mean=torch.tensor([2048.0]).half())
    assert q.dequantize().tolist() == [[2049.0]]


def test_a_convolution_of_four_dimensions_is_scaled_per_filter() -> None:
    q = QuantWeight(bits=2, levels=torch.ones(3, 2, 1, 1, dtype=torch.int8), scale=torch.tensor([1.0, 2.0, 3.0]))
    assert q.dequantize()[:, :, 0, 0].tolist() == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
