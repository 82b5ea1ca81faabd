"""Channels go last where a convolution reads many of them."""

import torch
from torch import nn

from models.channels import channels_last_


def test_filters_of_sixteen_channels_go_last_and_those_of_fewer_stay() -> None:
    for channels, wide in ((16, True), (15, False)):
        model = nn.Sequential(nn.Conv2d(1, channels, 3), nn.Conv2d(channels, 4, 3))
        before = [p.detach().clone() for p in model.parameters()]
        assert channels_last_(model) is wide
        assert model[1].weight.is_contiguous(memory_format=torch.channels_last) is wide
        assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_a_network_without_images_is_left_alone() -> None:
    assert channels_last_(nn.Linear(64, 2)) is False
