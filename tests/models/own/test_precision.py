"""Layers of own networks at a precision."""

import copy

import pytest
import torch
from torch import nn

from core.errors import ModelError
from models.own.precision import with_precision
from quant.binary import BinaryActivation, BinaryConv2d, BinaryLinear
from quant.layers import layers_for
from quant.precision import parse_precision
from quant.spectral import Conv2d
from tests.models.own import nets


def converted(net: nn.Module, precision: str) -> nn.Module:
    return with_precision(net, layers_for(parse_precision(precision)), nets.spec(precision))


def test_at_full_precision_only_the_computation_of_convolutions_changes() -> None:
    net = nets.Net().eval()
    made = converted(copy.deepcopy(net), "fp32")
    assert type(made.get_submodule("conv1")) is Conv2d
    assert torch.equal(made(nets.images()), net(nets.images()))
    assert list(made.state_dict()) == list(net.state_dict())


def test_linear_layers_and_convolutions_become_binary_with_their_weights() -> None:
    net = nets.Net()
    made = converted(copy.deepcopy(net), "w1")
    kinds = {name: type(made.get_submodule(name)) for name in ("conv1", "norm", "act", "fc1", "fc2")}
    assert kinds == {
        "conv1": BinaryConv2d,
        "norm": nn.BatchNorm2d,
        "act": nn.ReLU,
        "fc1": BinaryLinear,
        "fc2": BinaryLinear,
    }
    assert torch.equal(made.state_dict()["fc1.weight"], net.fc1.weight)
    assert list(made.state_dict()) == list(net.state_dict())


def test_activations_are_replaced_where_they_are_quantized() -> None:
    assert type(converted(nets.Net(), "w1a1").get_submodule("act")) is BinaryActivation
    brevitas = converted(nets.Net(), "w4a4")
    assert type(brevitas.get_submodule("act")).__name__ == "IntReLU"
    assert type(brevitas.get_submodule("fc1")).__name__ == "IntLinear"


def test_a_layer_that_is_used_twice_is_replaced_twice_by_the_same() -> None:
    shared = nn.Linear(4, 4)
    made = converted(nn.Sequential(shared, nn.ReLU(), shared), "w1")
    assert made.get_submodule("0") is made.get_submodule("2")
    assert type(made.get_submodule("0")) is BinaryLinear


def test_a_layer_alone_is_replaced() -> None:
    assert type(converted(nn.Linear(3, 2), "w1")) is BinaryLinear


@pytest.mark.parametrize(
    ("net", "precision", "says"),
    [
        (nets.Attends(4), "w1", "layer 'attention' is a MultiheadAttention: only nn.Linear and nn.Conv2d"),
        (nn.Sequential(nn.Conv2d(1, 2, 3, dilation=2)), "w1", "layer '0' is a Conv2d: quantized ones are square"),
        (nn.Sequential(nn.Conv2d(1, 2, (3, 5))), "w4a4", "layer '0' is a Conv2d"),
        (nn.Sequential(nn.Conv2d(1, 2, 3, padding="same")), "w1", "layer '0' is a Conv2d"),
        (nn.Sequential(nn.LSTM(4, 4)), "w1", "layer '0' is a LSTM"),
        (nn.Sequential(nn.ConvTranspose2d(1, 2, 3)), "w1", "layer '0' is a ConvTranspose2d"),
        (nn.Sequential(nn.Linear(2, 2), nn.GELU()), "w8a8", "layer '1' is a GELU: only nn.ReLU can be quantized"),
        (
            nn.Sequential(nn.Linear(2, 2), nn.Flatten()),
            "w8a8",
            "has no nn.ReLU to replace; use nn.ReLU instead of F.relu",
        ),
    ],
)
def test_what_cannot_be_quantized_is_refused_by_the_layers_name(net: nn.Module, precision: str, says: str) -> None:
    with pytest.raises(ModelError, match=says) as caught:
        converted(net, precision)
    assert "\n" not in str(caught.value)
    assert converted(net, "fp32") is net
