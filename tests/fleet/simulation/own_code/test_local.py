"""A user's loss and loop on devices."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from core import own_code
from core.errors import ConfigError
from edge_agent.training.params import LocalTraining
from fleet.simulation.own_code.local import find_loss, find_objective, own_loop
from tests.fleet.simulation.own_code import own

HOW = LocalTraining(lr=0.1, batch_size=32, steps=2)


@pytest.fixture(autouse=True)
def _own_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_code, "_lent", {})


def test_objectives_are_told_apart_by_their_arguments() -> None:
    own_code.lend("objective", "focal", own.focal)
    own_code.lend("objective", "decayed", own.decayed)
    logits, y = torch.zeros(2, 4), torch.tensor([0, 1])
    loss = find_loss("focal")
    assert loss is not None
    assert loss(logits, y) == own.focal(logits, y)
    assert find_objective("focal") is None
    assert find_loss("decayed") is None
    assert find_objective("decayed") is not None
    assert find_loss("") is find_objective("") is own_loop("", {}) is None


def trained(seed: int) -> tuple[torch.Tensor, float]:
    with torch.random.fork_rng():
        model = nn.Linear(4, 3)
    with torch.no_grad():
        model.weight.fill_(0.1)
        model.bias.zero_()
    loop = own_loop("loop", {"round_number": 1, "device": "sim-0"})
    assert loop is not None
    x, y = torch.randn(50, 4, generator=torch.Generator().manual_seed(1)), torch.arange(50) % 3
    done = loop(model, x, y, HOW, generator=torch.Generator().manual_seed(seed), loss_fn=F.cross_entropy)
    return model.weight.detach(), done.loss


def test_a_loop_draws_from_the_devices_seed() -> None:
    own_code.lend("train", "loop", own.loop)
    before = torch.get_rng_state()
    first, again, other = trained(1), trained(1), trained(2)
    assert torch.equal(first[0], again[0])
    assert first[1] == again[1]
    assert not torch.equal(first[0], other[0])
    assert torch.equal(torch.get_rng_state(), before)


def fails(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    raise KeyError("lost")


def test_what_a_users_loop_raises_is_one_line_with_its_name() -> None:
    own_code.lend("train", "loop", fails)
    with pytest.raises(ConfigError, match=r"train loop failed \(KeyError: 'lost'\)"):
        trained(1)
