"""VGG-9."""

import pytest
import torch
from torch import nn

from models.zoo.vgg import vgg9
from quant.layers import FloatLayers


def kinds(net: nn.Module) -> str:
    names = {"Conv2d": "c", "MaxPool2d": "M", "ReLU": "r"}
    return "".join(names[type(m).__name__] for m in net.features)


def test_the_order_is_that_of_the_configuration() -> None:
    assert kinds(vgg9(FloatLayers(), (3, 32, 32))) == "cMrcMrcrcMrcrcMrcrcMr"


@pytest.mark.parametrize(
    ("side", "order", "left"),
    [
        (8, "crcrcrcMrcrcMrcrcMr", 1),
        (16, "crcMrcrcMrcrcMrcrcMr", 1),
        (28, "cMrcMrcrcMrcrcMrcrcMr", 1),  # 14 7 4 2 1
        (64, "cMrcMrcrcMrcrcMrcrcMr", 2),
    ],
)
def test_small_images_skip_the_first_poolings_and_large_ones_are_averaged(side: int, order: str, left: int) -> None:
    net = vgg9(FloatLayers(), (1, side, side)).eval()
    assert kinds(net) == order
    with torch.no_grad():
        features = net.features(torch.randn(1, 1, side, side))
    assert features.shape == (1, 256, left, left)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (1, 8, 8)], ids=str)
def test_the_signal_keeps_its_size_without_norms(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        z = vgg9(FloatLayers(), shape)(torch.randn(4, *shape))
    assert 0.3 < float(z.std()) < 10.0
