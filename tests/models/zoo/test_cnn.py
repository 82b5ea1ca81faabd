"""The FedGen CNN."""

import torch

from models.zoo.cnn import cnn
from quant.layers import FloatLayers


def test_the_layers_are_those_of_the_authors_code() -> None:
    shapes = {name: tuple(p.shape) for name, p in cnn(FloatLayers(), (1, 28, 28)).named_parameters() if p.ndim > 1}
    assert shapes == {"conv1.weight": (6, 1, 3, 3), "conv2.weight": (16, 6, 3, 3), "fc.weight": (32, 784)}


def test_the_latent_has_no_activation() -> None:
    net = cnn(FloatLayers(), (1, 8, 8))
    z = net(torch.randn(8, 1, 8, 8, generator=torch.Generator().manual_seed(0)))
    assert (z < 0).any()
    assert (z > 0).any()


def test_odd_sizes_round_up_at_each_stride() -> None:
    assert cnn(FloatLayers(), (3, 9, 13)).fc.weight.shape == (32, 16 * 3 * 4)
