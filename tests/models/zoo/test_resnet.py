"""ResNets for small images."""

import pytest
import torch
from torch import nn

from models.zoo.common import batch_norm, group_norm
from models.zoo.resnet import Block, resnet8, resnet8_gn, resnet20, resnet32, resnet32_gn
from quant.layers import FloatLayers

LAYERS = FloatLayers()


def convs(net: nn.Module, kernel: int) -> int:
    return sum(isinstance(m, nn.Conv2d) and m.kernel_size == (kernel, kernel) for m in net.modules())


@pytest.mark.parametrize(("make", "depth"), [(resnet8, 8), (resnet20, 20), (resnet32, 32)])
def test_the_depth_counts_3x3_convolutions_and_the_predictor(make, depth: int) -> None:
    net = make(LAYERS, (3, 32, 32))
    assert convs(net, 3) + 1 == depth
    assert convs(net, 1) == 2  # shortcuts where the channels double


def test_a_block_is_the_equation() -> None:
    block = Block(LAYERS, 2, 3, 2, batch_norm).eval()
    x = torch.randn(2, 2, 6, 6, generator=torch.Generator().manual_seed(0))
    y = block.norm2(block.conv2(block.norm1(block.conv1(x)).clamp(min=0)))
    conv, norm = block.shortcut
    torch.testing.assert_close(block(x), (y + norm(conv(x))).clamp(min=0))
    assert block(x).shape == (2, 3, 3, 3)


def test_the_shortcut_is_the_identity_where_the_shape_stays() -> None:
    block = Block(LAYERS, 4, 4, 1, group_norm).eval()
    assert isinstance(block.shortcut, nn.Identity)
    nn.init.zeros_(block.norm2.weight)
    x = torch.randn(1, 4, 3, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(block(x), x.clamp(min=0))


def test_the_strides_are_one_two_two() -> None:
    net = resnet8(LAYERS, (3, 32, 32))
    x = net.stage1(torch.zeros(1, 16, 32, 32))
    assert x.shape == (1, 16, 32, 32)
    assert net.stage3(net.stage2(x)).shape == (1, 64, 8, 8)


def test_gn_replaces_every_batch_norm() -> None:
    for make, norms in ((resnet8_gn, 9), (resnet32_gn, 33)):
        modules = list(make(LAYERS, (3, 32, 32)).modules())
        assert not any(isinstance(m, nn.BatchNorm2d) for m in modules)
        assert sum(isinstance(m, nn.GroupNorm) and m.num_groups == 2 for m in modules) == norms


def test_convolutions_start_from_the_formula_of_the_authors_code() -> None:
    torch.manual_seed(0)
    weight = resnet8(LAYERS, (3, 32, 32)).stage3[0].conv2.weight
    assert abs(float(weight.detach().std()) / (2.0 / (9 * 64)) ** 0.5 - 1.0) < 0.02  # 36,864 draws: sd 0.004


def test_widening_multiplies_the_channels() -> None:
    net = resnet8(LAYERS, (3, 32, 32), widen=4)
    assert net.width == 256
    # stem 1,728 + 128; stages 73,984, 230,144, 919,040
    assert sum(p.numel() for p in net.parameters()) == 1_225_024
