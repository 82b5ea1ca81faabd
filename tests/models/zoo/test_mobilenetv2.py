"""MobileNetV2."""

import torch
from torch import nn

from models.zoo.mobilenetv2 import Bottleneck, mobilenetv2
from quant.layers import FloatLayers, layers_for
from quant.precision import parse_precision

LAYERS = FloatLayers()


def test_the_parameters_are_those_of_the_published_imagenet_model() -> None:
    net = mobilenetv2(LAYERS, (3, 32, 32))
    assert sum(p.numel() for p in net.parameters()) + 1280 * 1000 + 1000 == 3_504_872


def test_a_bottleneck_adds_its_input_only_where_the_shape_stays() -> None:
    x = torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(0))
    for c_out, stride, residual in ((4, 1, True), (4, 2, False), (5, 1, False)):
        block = Bottleneck(LAYERS, 4, c_out, 6, stride)
        nn.init.zeros_(block.project[1].weight)
        y = block(x)
        assert y.shape == (2, c_out, 6 // stride, 6 // stride)
        assert torch.equal(y, x) if residual else torch.count_nonzero(y) == 0


def test_the_first_bottleneck_does_not_expand() -> None:
    net = mobilenetv2(LAYERS, (3, 32, 32))
    expands = [not isinstance(block.expand, nn.Identity) for block in net.blocks]
    assert expands == [False] + [True] * 16


def test_32x32_is_halved_three_times_only() -> None:
    net = mobilenetv2(LAYERS, (3, 32, 32)).eval()
    with torch.no_grad():
        assert net.stem(torch.zeros(1, 3, 32, 32)).shape == (1, 32, 32, 32)
        assert net.blocks(torch.zeros(1, 32, 32, 32)).shape == (1, 320, 4, 4)


def test_relu6_stays_where_activations_are_float() -> None:
    def relu6(name: str) -> int:
        net = mobilenetv2(layers_for(parse_precision(name)), (3, 32, 32))
        return sum(isinstance(m, nn.ReLU6) for m in net.modules())

    assert (relu6("fp32"), relu6("w1"), relu6("w1a1")) == (35, 35, 0)
