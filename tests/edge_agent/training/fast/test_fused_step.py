"""Large linear layers that step in the backward pass come where torch's SGD comes."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edge_agent.training.fast.fused_step import LARGE, Stepping, layers_that_may
from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import train_local

PLAIN = LocalTraining(lr=0.1, batch_size=4, epochs=1)
WIDE = 512  # WIDE x WIDE weights are large
assert WIDE * WIDE >= LARGE


class Net(nn.Module):
    """A convolution, a large linear layer in the middle, an end; `twice` goes through the middle again."""

    def __init__(self, *, twice: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 1)
        self.wide = nn.Linear(WIDE, WIDE)
        self.unused = nn.Linear(3, 3)
        self.end = nn.Linear(WIDE, 3)
        self.twice = twice

    def forward(self, x: Tensor) -> Tensor:
        z = F.relu(self.wide(F.relu(self.conv(x)).flatten(1)))
        z = F.relu(self.wide(z)) if self.twice else z
        out: Tensor = self.end(z)
        return out


class Deep(Net):
    """The middle sees one dimension more."""

    def forward(self, x: Tensor) -> Tensor:
        z = self.wide(self.conv(x).flatten(1)[:, None])
        out: Tensor = self.end(z[:, 0])
        return out


def trained(net: nn.Module, how: LocalTraining, samples: int = 8) -> tuple[nn.Module, nn.Module]:
    """`net` after local training, and its twin after the same steps of torch's SGD."""
    torch.manual_seed(3)
    x, y = torch.randn(samples, 1, 8, 8), torch.randint(0, 3, (samples,))
    twin = copy.deepcopy(net)
    optimizer = torch.optim.SGD(twin.parameters(), lr=how.lr, momentum=how.momentum, weight_decay=how.weight_decay)
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(1))
    for chosen in order.split(how.batch_size):
        optimizer.zero_grad()
        F.cross_entropy(twin(x[chosen]), y[chosen]).backward()
        for p in twin.parameters():
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad  # who is not used is pulled to 0 all the same
        optimizer.step()
    train_local(net, x, y, how, generator=torch.Generator().manual_seed(1))
    return net, twin


@pytest.mark.parametrize(
    "how",
    [
        PLAIN,
        LocalTraining(lr=0.1, batch_size=4, epochs=1, weight_decay=0.1),
        LocalTraining(lr=0.1, batch_size=4, epochs=1, momentum=0.9),
    ],
    ids=["plain", "decay", "momentum"],
)
@pytest.mark.parametrize("make", [Net, lambda: Net(twice=True), Deep], ids=["once", "twice", "3d"])
def test_it_comes_where_sgd_comes(make: Callable[[], Net], how: LocalTraining) -> None:
    torch.manual_seed(0)
    net, twin = trained(make(), how)
    for (name, ours), own in zip(net.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, own, rtol=1e-5, atol=1e-6, msg=name)


def test_a_layer_that_steps_has_no_gradient_and_the_others_have() -> None:
    net = Net()
    stepping = Stepping(layers_that_may(net, PLAIN), PLAIN)
    before = net.wide.weight.detach().clone()
    with stepping.within() as moved:
        loss = net(torch.randn(2, 1, 8, 8)).square().sum()
        found = torch.autograd.grad(loss, [net.wide.weight, net.wide.bias, net.end.weight], allow_unused=True)
    assert moved == {id(net.wide.weight)}
    assert [g is None for g in found] == [True, False, False]
    assert not torch.equal(net.wide.weight, before)
    assert "forward" not in vars(net.wide)


def test_who_may_is_large_plain_learned_and_used_by_nobody_else() -> None:
    net = Net()
    assert layers_that_may(net, PLAIN) == [net.wide]
    for other in ({"momentum": 0.5}, {"prox": 0.1}):
        assert layers_that_may(net, LocalTraining(lr=0.1, batch_size=4, epochs=1, **other)) == []
    assert layers_that_may(Net().double(), PLAIN) == []
    frozen = Net()
    frozen.wide.requires_grad_(requires_grad=False)
    assert layers_that_may(frozen, PLAIN) == []
    tied = Net()
    tied.other = nn.Linear(WIDE, WIDE)
    tied.other.weight = tied.wide.weight
    assert layers_that_may(tied, PLAIN) == []


def test_after_an_error_the_layer_is_as_it_was() -> None:
    net = Net()
    stepping = Stepping(layers_that_may(net, PLAIN), PLAIN)
    before = net.wide.weight.detach().clone()
    with pytest.raises(RuntimeError, match="shape"), stepping.within():
        net(torch.randn(2, 1, 9, 9))
    assert "forward" not in vars(net.wide)
    assert torch.equal(net.wide.weight, before)


def test_a_model_of_such_a_layer_alone_learns() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Tanh(), nn.Linear(64, LARGE // 64, bias=False))
    net, twin = trained(net, PLAIN)
    torch.testing.assert_close(list(net.parameters()), list(twin.parameters()), rtol=1e-5, atol=1e-6)
