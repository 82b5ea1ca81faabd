"""The perceptrons."""

import torch
from torch import nn

from models.zoo.mlp import fedrad_mlp, mlp
from quant.layers import FloatLayers, layers_for
from quant.precision import parse_precision

LAYERS = FloatLayers()


def test_the_mlp_is_two_linear_layers_with_relu() -> None:
    net = mlp(LAYERS, (2, 3), hidden=4)
    x = torch.randn(5, 2, 3, generator=torch.Generator().manual_seed(0))
    h = (x.reshape(5, 6) @ net.fc1.weight.T + net.fc1.bias).clamp(min=0)
    expected = (h @ net.fc2.weight.T + net.fc2.bias).clamp(min=0)
    torch.testing.assert_close(net(x), expected)


def test_the_fedrad_mlp_leaks_a_tenth_and_drops_half() -> None:
    net = fedrad_mlp(LAYERS, (4,))
    assert isinstance(net.act1, nn.LeakyReLU)
    assert net.act1(torch.tensor(-2.0)).item() == torch.tensor(-2.0).mul(0.1).item()
    assert net.dropout.p == 0.5
    torch.manual_seed(0)
    dropped = float((net.train()(torch.ones(20, 4)) == 0).float().mean())
    assert 0.45 < dropped < 0.55  # 5,120 draws
    assert not (net.eval()(torch.ones(20, 4)) == 0).any()


def test_each_activation_is_a_layer_of_its_own() -> None:
    """A shared one would share its scale between two places."""
    net = fedrad_mlp(layers_for(parse_precision("w4a4")), (4,))
    assert net.act1 is not net.act2
    assert not isinstance(net.act1, nn.LeakyReLU)
