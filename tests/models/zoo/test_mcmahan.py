"""McMahan's CNN."""

import torch
from torch.nn import functional as F

from models.zoo.mcmahan import mcmahan_cnn
from quant.layers import FloatLayers, layers_for
from quant.precision import parse_precision


def test_the_layers_are_those_of_the_paper() -> None:
    net = mcmahan_cnn(FloatLayers(), (1, 28, 28))
    shapes = {name: tuple(p.shape) for name, p in net.named_parameters() if p.ndim > 1}
    assert shapes == {"conv1.weight": (32, 1, 5, 5), "conv2.weight": (64, 32, 5, 5), "fc.weight": (512, 3136)}


def test_pooling_before_the_activation_gives_what_pooling_after_it_gives() -> None:
    x = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    for name in ("fp32", "w1a1", "w2a2"):
        net = mcmahan_cnn(layers_for(parse_precision(name)), (1, 8, 8)).eval()
        with torch.no_grad():
            y = F.max_pool2d(net.act1(net.conv1(x)), 2)
            y = F.max_pool2d(net.act2(net.conv2(y)), 2)
            assert torch.equal(net(x), net.act3(net.fc(y.flatten(1))))
