"""One step of the plain trainer, against the equation of SGD with momentum, weight decay and FedProx."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from edge_agent.training.params import LocalTraining
from edge_agent.training.trainer import Autograd

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 2, 0, 1, 2])


def net() -> nn.Linear:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return nn.Linear(4, 3)


@pytest.mark.parametrize("prox", [0.0, 0.3])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_steps_follow_the_equation(momentum: float, prox: float) -> None:
    """v <- beta v + g + lambda w + mu (w - w_0),   w <- w - eta v."""
    how = LocalTraining(lr=0.2, batch_size=6, steps=3, momentum=momentum, weight_decay=0.05, prox=prox)
    model, naive = net(), net()
    trainer = Autograd(model, how, F.cross_entropy, None)
    start = [p.detach().clone() for p in naive.parameters()]
    velocity = [torch.zeros_like(p) for p in start]
    for _ in range(3):
        trainer.step(X, Y, None)
        grads = torch.autograd.grad(F.cross_entropy(naive(X), Y), list(naive.parameters()))
        with torch.no_grad():
            for k, (w, g) in enumerate(zip(naive.parameters(), grads, strict=True)):
                velocity[k] = momentum * velocity[k] + g + 0.05 * w + prox * (w - start[k])
                w -= 0.2 * velocity[k]
    for ours, theirs in zip(model.parameters(), naive.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_loss_before_the_step_is_added_to_the_total() -> None:
    model, total = net(), torch.tensor(10.0)
    expected = F.cross_entropy(model(X), Y).item()
    Autograd(model, LocalTraining(lr=0.1, batch_size=6, steps=1), F.cross_entropy, None).step(X, Y, total)
    assert total.item() == pytest.approx(10 + expected)


def test_an_objective_stands_in_for_loss_and_forward() -> None:
    model, seen = net(), []

    def objective(given: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        seen.append((given is model, len(x), len(y)))
        return given.bias.sum()

    before = model.bias.detach().clone()
    Autograd(model, LocalTraining(lr=0.5, batch_size=6, steps=1), F.cross_entropy, objective).step(X, Y, None)
    assert seen == [(True, 6, 6)]
    torch.testing.assert_close(model.bias.detach(), before - 0.5)


def test_a_weight_without_a_gradient_decays_and_a_frozen_one_stays() -> None:
    model = nn.Sequential(net())
    model.unused = nn.Parameter(torch.ones(1))
    model.frozen = nn.Parameter(torch.ones(1), requires_grad=False)
    trainer = Autograd(
        model, LocalTraining(lr=0.5, batch_size=6, steps=1, weight_decay=0.1), lambda z, y: z.sum() * 0, None
    )
    model.forward = model[0].forward
    trainer.step(X, Y, None)
    assert model.unused.item() == pytest.approx(0.95)
    assert model.frozen.item() == 1.0


def test_gradients_are_clipped_before_decay_and_momentum() -> None:
    how = LocalTraining(lr=1.0, batch_size=6, steps=1, clip=0.01)
    model = net()
    before = torch.cat([p.detach().flatten().clone() for p in model.parameters()])
    Autograd(model, how, F.cross_entropy, None).step(X, Y, None)
    after = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert (after - before).norm().item() == pytest.approx(0.01, rel=1e-3)
