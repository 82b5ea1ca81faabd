"""Adam against torch's own, and its first step by hand."""

import subprocess
import sys

import pytest
import torch

from aggregator.fusion.numerics.adam import Adam


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_thirty_steps_equal_torch_adam(weight_decay: float) -> None:
    rng = torch.Generator().manual_seed(0)
    start = [torch.randn(4, 3, generator=rng), torch.randn(5, generator=rng)]
    ours, theirs = [p.clone() for p in start], [p.clone().requires_grad_() for p in start]
    adam, reference = Adam.fresh(ours), torch.optim.Adam(theirs, lr=0.02, weight_decay=weight_decay)
    for _ in range(30):
        grads = [torch.randn(p.shape, generator=rng) for p in start]
        for p, grad in zip(theirs, grads, strict=True):
            p.grad = grad.clone()
        reference.step()
        adam.step(ours, grads, lr=0.02, weight_decay=weight_decay)
    assert adam.steps == 30
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b.detach(), rtol=1e-5, atol=1e-6)


def test_the_first_step_has_the_length_of_the_rate_whatever_the_gradient() -> None:
    w = [torch.tensor([1.0, 1.0])]
    Adam.fresh(w).step(w, [torch.tensor([1000.0, -0.001])], lr=0.1)
    assert w[0].tolist() == pytest.approx([0.9, 1.1], abs=1e-5)


def test_gradients_are_left_as_they_are() -> None:
    w, grads = [torch.ones(2)], [torch.ones(2)]
    Adam.fresh(w).step(w, grads, lr=0.1, weight_decay=0.5)
    assert grads[0].tolist() == [1.0, 1.0]


def test_numbers_may_lie_in_memory_in_another_order_than_their_gradients() -> None:
    rng = torch.Generator().manual_seed(0)
    start, grad = torch.randn(4, 3, 3, 3, generator=rng), torch.randn(4, 3, 3, 3, generator=rng)
    plain, last = [start.clone()], [start.clone().contiguous(memory_format=torch.channels_last)]
    for w in (plain, last):
        adam = Adam.fresh(w)
        for _ in range(3):
            adam.step(w, [grad], lr=0.1)
    assert torch.equal(plain[0], last[0])


def test_moments_and_steps_that_were_kept_go_on_to_the_same_bits() -> None:
    rng = torch.Generator().manual_seed(0)
    start, grads = torch.randn(5, 3, generator=rng), torch.randn(6, 5, 3, generator=rng)
    straight, halves = [start.clone()], [start.clone()]
    adam = Adam.fresh(straight)
    for grad in grads:
        adam.step(straight, [grad], lr=0.01)
    kept = Adam.fresh(halves)
    for part in grads.split(3):
        kept = Adam([m.clone() for m in kept.first], [v.clone() for v in kept.second], kept.steps)
        for grad in part:
            kept.step(halves, [grad], lr=0.01)
    assert torch.equal(straight[0], halves[0])
    assert adam.steps == kept.steps == 6


def test_the_step_imports_no_compiler() -> None:
    """The class `torch.optim.Adam` imports torch._dynamo when it is made: 70 MB, and seconds of every worker."""
    code = (
        "import sys, torch; from aggregator.fusion.numerics.optimizers import make_optimizer;"
        "from aggregator.recipes.catalogue import Distillation;"
        "w = [torch.ones(2)];"
        "[make_optimizer(w, Distillation(optimizer=o)).step([torch.ones(2)], 0.1) for o in ('adam', 'sgd')];"
        "print(w[0].tolist() != [1, 1], 'torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]
