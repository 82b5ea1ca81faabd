"""Own networks split into extractor and predictor."""

from typing import Any

import pytest
import torch
from torch import nn

from core.errors import ModelError
from models.own.network import OwnNetwork
from models.own.split import split_network
from tests.models.own import nets


@pytest.mark.parametrize("predictor", [None, "fc2"])
def test_the_last_linear_layer_is_the_predictor(predictor: str | None) -> None:
    net = nets.Net().eval()
    x = nets.images()
    before = net(x)
    body, head, width = split_network(net, nets.network(nets.Net, predictor), nets.spec())
    assert (width, head) == (12, head)
    assert isinstance(head, nn.Linear)
    assert torch.equal(head(body(x)), before)


def test_by_hand_any_module_may_be_the_predictor() -> None:
    net = nets.ByHand(4).eval()
    body, head, width = split_network(net, nets.network(nets.ByHand), nets.spec())
    assert width == 7
    assert torch.equal(head(body(nets.images())), nets.ByHand.forward(net, nets.images()))


def test_token_ids_are_recognized_by_an_embedding() -> None:
    body, _, width = split_network(nets.Words(4), nets.network(nets.Words), nets.spec(shape=(6,)))
    assert (body.tokens, width) == (50, 8)


def test_a_network_is_measured_once_per_shape_and_its_mode_and_draws_stay() -> None:
    network, net = nets.network(nets.Net), nets.Net()
    state = torch.get_rng_state()
    split_network(net, network, nets.spec())
    assert torch.equal(torch.get_rng_state(), state)
    assert net.training
    assert list(network.cuts) == [((1, 8, 8), 4)]


class Logistic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(64, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x.flatten(1))


def test_a_linear_model_has_an_extractor_without_weights() -> None:
    body, _, width = split_network(Logistic(), nets.network(Logistic), nets.spec())
    assert width == 64
    assert not list(body.parameters())


@pytest.mark.parametrize(
    ("net", "network", "says"),
    [
        (
            nets.Net(),
            nets.network(nets.Net, "fc3"),
            "no such layer; did you mean 'fc2'|no such layer; did you mean 'fc1'",
        ),
        (nets.Net(), nets.network(nets.Net, "fc1"), "layer 'fc1' does not make its logits"),
        (nets.Softmax(), nets.network(nets.Softmax), "no linear layer makes its logits; .*without a softmax"),
        (nets.Twice(), nets.network(nets.Twice), "layer 'fc2' is called 2 times"),
        (nets.Fails(), nets.network(nets.Fails), r"fails on inputs \(3, 1, 8, 8\) \(RuntimeError"),
        (nets.Net(classes=10), nets.network(nets.Net), r"gives \(3, 10\) for 3 inputs, expected \(3, 4\)"),
        (nn.Identity(), nets.network(nn.Identity), r"gives \(3, 1, 8, 8\)"),
    ],
)
def test_what_cannot_be_split_says_why_in_one_line(net: Any, network: OwnNetwork, says: str) -> None:
    with pytest.raises(ModelError, match=says) as caught:
        split_network(net, network, nets.spec())
    assert "\n" not in str(caught.value)
