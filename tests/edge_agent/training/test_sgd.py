"""Local training against steps worked by hand and against torch.optim."""

import itertools

import pytest
import torch
from torch import nn

from core.errors import ConfigError, DivergedError
from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import batches, train_local


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def toy() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(50, 4, generator=seeded(1))
    return x, (x[:, 0] > 0).long()


def net() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.0, 0.0), (0.9, 0.0), (0.5, 0.01)])
def test_the_step_equals_torch_sgd(momentum: float, weight_decay: float) -> None:
    x, y = toy()
    ours, theirs = net(), net()
    how = LocalTraining(lr=0.1, batch_size=50, epochs=5, momentum=momentum, weight_decay=weight_decay)
    train_local(ours, x, y, how, generator=seeded())
    sgd = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=momentum, weight_decay=weight_decay)
    generator = seeded()
    for _ in range(5):
        (chosen,) = batches(50, 50, generator)
        sgd.zero_grad()
        nn.functional.cross_entropy(theirs(x[chosen]), y[chosen]).backward()
        sgd.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("by_hand", [True, False], ids=["perceptron", "autograd"])
def test_clipping_equals_that_of_torch(by_hand: bool) -> None:
    x, y = toy()
    ours, theirs = net(), net()
    fast = "auto" if by_hand else "off"
    how = LocalTraining(lr=0.1, batch_size=50, epochs=5, momentum=0.9, clip=0.1, fast=fast)
    train_local(ours, x, y, how, generator=seeded())
    sgd = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9)
    for _ in range(5):
        sgd.zero_grad()
        nn.functional.cross_entropy(theirs(x), y).backward()
        norm = nn.utils.clip_grad_norm_(theirs.parameters(), 0.1)
        assert norm > 0.1  # it bites
        sgd.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_weights_without_a_gradient_are_clipped_with_the_others() -> None:
    model = nn.ModuleDict({"used": nn.Linear(1, 1, bias=False), "unused": nn.Linear(1, 1)})
    model["used"].weight.data.fill_(1.0)
    how = LocalTraining(lr=0.1, batch_size=1, steps=1, clip=0.5)
    x, y = torch.full((1, 1), 8.0), torch.zeros(1, dtype=torch.long)
    train_local(model, x, y, how, generator=seeded(), objective=lambda m, x, _: m["used"](x).sum())
    assert model["used"].weight.item() == pytest.approx(1 - 0.1 * 0.5)  # the gradient was 8


@pytest.mark.parametrize("by_hand", [True, False], ids=["perceptron", "autograd"])
def test_a_gradient_that_is_not_finite_ends_the_training(by_hand: bool) -> None:
    x, y = toy()
    model = net()
    start = [p.detach().clone() for p in model.parameters()]
    how = LocalTraining(lr=0.1, batch_size=50, epochs=5, clip=1.0, fast="auto" if by_hand else "off")
    with pytest.raises(DivergedError, match="training diverged: the gradient is not finite"):
        train_local(model, x * float("inf"), y, how, generator=seeded())
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), start, strict=True))  # NaN went nowhere


def test_fedprox_pulls_towards_the_received_weights() -> None:
    """One weight, loss = w, so grad = 1: w1 = 1 - 0.1; then w2 = w1 - 0.1 * (1 + mu * (w1 - 1)) with mu = 2."""
    model = nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(1.0)
    how = LocalTraining(lr=0.1, batch_size=1, steps=2, prox=2.0)
    x, y = torch.ones(1, 1), torch.zeros(1)
    train_local(model, x, y, how, generator=seeded(), loss_fn=lambda out, _: out.sum())
    assert model.weight.item() == pytest.approx(0.9 - 0.1 * (1 + 2.0 * (0.9 - 1.0)))


def test_training_learns_and_reports_the_loss() -> None:
    x, y = toy()
    model = net()
    before = nn.functional.cross_entropy(model(x), y).item()
    done = train_local(model, x, y, LocalTraining(lr=0.5, batch_size=10, epochs=20), generator=seeded())
    assert done.steps == 100
    assert not done.stopped_early
    assert done.loss < before / 3


def test_steps_go_on_over_the_end_of_an_epoch() -> None:
    x, y = toy()
    done = train_local(net(), x, y, LocalTraining(lr=0.1, batch_size=20, steps=7), generator=seeded())
    assert done.steps == 7


def test_a_deadline_keeps_what_was_learned_so_far() -> None:
    x, y = toy()
    model, asked = net(), itertools.count()
    start = [p.clone() for p in model.parameters()]
    done = train_local(
        model,
        x,
        y,
        LocalTraining(lr=0.5, batch_size=10, epochs=20),
        generator=seeded(),
        should_stop=lambda: next(asked) >= 3,
    )
    assert (done.steps, done.stopped_early) == (3, True)
    assert not torch.equal(start[0], next(model.parameters()))


def test_the_same_seed_gives_the_same_weights() -> None:
    x, y = toy()
    one, two = net(), net()
    for model in (one, two):
        train_local(model, x, y, LocalTraining(lr=0.1, batch_size=8, epochs=2), generator=seeded(5))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_an_epoch_visits_every_sample_once_but_a_lonely_last_one() -> None:
    assert sorted(torch.cat(list(batches(10, 4, seeded()))).tolist()) == list(range(10))
    assert sum(len(b) for b in batches(9, 4, seeded())) == 8  # BatchNorm cannot normalise the ninth alone
    assert [len(b) for b in batches(1, 4, seeded())] == [1]


def test_wide_convolutions_run_with_their_channels_last_and_come_to_the_same_weights() -> None:
    def conv() -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(4)
            return nn.Sequential(nn.Conv2d(16, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36, 2))

    x = torch.randn(12, 16, 5, 5, generator=seeded(1))
    y = (x[:, 0, 0, 0] > 0).long()
    model, twin = conv(), conv()
    train_local(model, x, y, LocalTraining(lr=0.1, batch_size=12, steps=3), generator=seeded())
    assert model[0].weight.is_contiguous(memory_format=torch.channels_last)
    order = seeded()
    for _ in range(3):
        (chosen,) = batches(12, 12, order)
        grads = torch.autograd.grad(nn.functional.cross_entropy(twin(x[chosen]), y[chosen]), list(twin.parameters()))
        with torch.no_grad():
            for p, grad in zip(twin.parameters(), grads, strict=True):
                p -= 0.1 * grad
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_a_device_without_samples_is_told_so() -> None:
    how = LocalTraining(lr=0.1, batch_size=8, epochs=1)
    with pytest.raises(ConfigError, match="no samples"):
        train_local(net(), torch.empty(0, 4), torch.empty(0, dtype=torch.long), how, generator=seeded())


def test_local_training_does_not_import_the_optimizers() -> None:
    import subprocess
    import sys

    code = (
        "import sys, torch; from torch import nn; "
        "from edge_agent.training.params import *; from edge_agent.training.sgd import *; "
        "train_local(nn.Linear(2, 2), torch.randn(4, 2), torch.tensor([0, 1, 0, 1]), "
        "LocalTraining(lr=0.1, batch_size=2, epochs=1, momentum=0.9), generator=torch.Generator()); "
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_an_order_replaces_what_the_generator_would_shuffle() -> None:
    x, y = toy()
    ours, theirs = net(), net()
    how = LocalTraining(lr=0.1, batch_size=10, epochs=5)
    order = [torch.tensor([0, 1, 2]), torch.tensor([3, 4, 5, 6])]
    trained = train_local(ours, x, y, how, generator=seeded(), order=order)
    sgd, losses = torch.optim.SGD(theirs.parameters(), lr=0.1), []
    for chosen in order:
        sgd.zero_grad()
        loss = nn.functional.cross_entropy(theirs(x[chosen]), y[chosen])
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    assert trained.steps == 2
    assert trained.loss == pytest.approx(sum(losses) / 2)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b)
