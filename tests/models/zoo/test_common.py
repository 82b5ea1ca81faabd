"""Shared parts of the zoo."""

import torch
from torch import nn

from models.zoo.common import group_norm, he_normal_, or_quantized
from quant.layers import layers_for
from quant.precision import parse_precision


def test_he_normal_has_the_variance_of_the_formula_and_zero_biases() -> None:
    torch.manual_seed(0)
    conv, linear = nn.Conv2d(40, 50, 3), nn.Linear(3, 4)
    before = linear.weight.clone()
    he_normal_(nn.Sequential(conv, linear), fan="in")
    assert abs(float(conv.weight.detach().var()) / (2.0 / (9 * 40)) - 1.0) < 0.05  # 18,000 draws: sd 0.011
    he_normal_(nn.Sequential(conv, linear))
    assert abs(float(conv.weight.detach().var()) / (2.0 / (9 * 50)) - 1.0) < 0.05
    assert torch.count_nonzero(conv.bias) == 0
    assert torch.equal(linear.weight, before)


def test_he_normal_finds_the_convolutions_of_every_precision() -> None:
    for name in ("w8a8", "w2a2", "w1"):
        conv = layers_for(parse_precision(name)).conv2d(1, 2, 3, bias=True)
        before = conv.weight.detach().clone()
        he_normal_(conv)
        assert not torch.equal(conv.weight, before)
        assert torch.count_nonzero(conv.bias) == 0


def test_a_papers_own_activation_yields_only_to_quantized_ones() -> None:
    own = nn.LeakyReLU(0.1)
    for name, kept in {"fp32": True, "w1": True, "w1a1": False, "w4a4": False}.items():
        assert (or_quantized(layers_for(parse_precision(name)), own) is own) is kept


def test_group_norm_has_two_groups() -> None:
    assert group_norm(16).num_groups == 2
