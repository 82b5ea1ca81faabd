"""ShuffleNetV2."""

import pytest
import torch
from torch import nn

from core.errors import ConfigError
from models.zoo.shufflenetv2 import Unit, shuffle, shufflenetv2
from quant.layers import FloatLayers

LAYERS = FloatLayers()


@pytest.mark.parametrize(
    ("size", "published"), [(0.5, 1_366_792), (1.0, 2_278_604), (1.5, 3_503_624), (2.0, 7_393_996)]
)
def test_the_parameters_are_those_of_the_published_imagenet_models(size: float, published: int) -> None:
    net = shufflenetv2(LAYERS, (3, 32, 32), size=size)
    assert sum(p.numel() for p in net.parameters()) + 1000 * net.width + 1000 == published


def test_shuffle_interleaves_what_concatenation_and_channel_shuffle_would() -> None:
    x = torch.arange(2 * 6 * 4.0).reshape(2, 6, 2, 2)
    a, b = x.chunk(2, 1)
    assert torch.equal(shuffle(a, b), nn.ChannelShuffle(2)(x))
    assert shuffle(a, b)[0, :, 0, 0].tolist() == [0.0, 12.0, 4.0, 16.0, 8.0, 20.0]


def test_a_unit_passes_half_of_the_channels_untouched() -> None:
    x = torch.randn(2, 8, 4, 4, generator=torch.Generator().manual_seed(0))
    y = Unit(LAYERS, 8, 8, down=False)(x)
    assert y.shape == x.shape
    assert torch.equal(y[:, ::2], x[:, :4])


def test_a_down_unit_halves_the_map_and_widens_it() -> None:
    assert Unit(LAYERS, 8, 20, down=True)(torch.randn(2, 8, 6, 6)).shape == (2, 20, 3, 3)


def test_32x32_is_halved_three_times_only() -> None:
    net = shufflenetv2(LAYERS, (3, 32, 32)).eval()
    with torch.no_grad():
        assert net.stem(torch.zeros(1, 3, 32, 32)).shape == (1, 24, 32, 32)
        assert net.units(torch.zeros(1, 24, 32, 32)).shape == (1, 192, 4, 4)


def test_a_size_that_the_paper_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no size 0\.7; the paper has 0\.5 1\.0 1\.5 2\.0"):
        shufflenetv2(LAYERS, (3, 32, 32), size=0.7)
