"""Devices that are trained as one computation come to the bits that each has alone."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from core.errors import DivergedError
from edge_agent.training.local_round import repeatable
from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import train_local
from fleet.fast.sample_store import Shelf
from fleet.fast.stacked_perceptrons import Pupils, size_that_pays, train_stacked
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from models.split import Prototype
from tests.edge_agent.sgd_terms import every_sgd_term


def prototype(name: str = "mlp:fp32", side: int = 4) -> Prototype:
    arch, precision = parse_prototype(name)
    spec = PrototypeSpec(arch, precision, (1, side, side), 3, 6)
    return build(spec, generator=torch.Generator().manual_seed(1))


def samples(number: int, count: int, side: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(count, 1, side, side, generator=torch.Generator().manual_seed(number))
    return x, x.flatten(1)[:, :3].argmax(1)


def shuffle(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(100 + number)


def pupils(sizes: list[int], side: int = 4) -> Pupils:
    own = [samples(k, n, side) for k, n in enumerate(sizes)]
    x, y = (torch.cat(parts) for parts in zip(*own, strict=True))
    return Pupils(Shelf(x.flatten(1)), torch.arange(len(y)), y, sizes, [shuffle(k) for k in range(len(sizes))])


def check_like_alone(name: str, sizes: list[int], how: LocalTraining, side: int = 4) -> None:
    start = prototype(name, side)
    stack = train_stacked(start, pupils(sizes, side), how)
    for k, n in enumerate(sizes):
        alone, together = prototype(name, side), prototype(name, side)
        with repeatable(alone, shuffle(k)):
            wanted = train_local(alone, *samples(k, n, side), how, generator=shuffle(k))
        stack.put_into(together, k)
        own = dict(together.named_parameters())
        views = stack.state(k)
        assert views.keys() == own.keys()
        assert all(torch.equal(view, own[name]) for name, view in views.items())
        for (tensor, a), b in zip(alone.state_dict().items(), together.state_dict().values(), strict=True):
            assert torch.equal(a, b), f"pupil {k}, {tensor}"
        assert stack.trained(k) == wanted
    own = prototype(name, side)
    assert all(torch.equal(a, b) for a, b in zip(start.parameters(), own.parameters(), strict=True))


@pytest.mark.parametrize("name", ["mlp:fp32", "mlp:w1", "fedrad_mlp:fp32"])
@every_sgd_term
def test_the_bits_are_those_of_one_device_after_another(name: str, extra: dict[str, float]) -> None:
    check_like_alone(name, [21, 21, 21], LocalTraining(lr=0.1, batch_size=8, epochs=2, **extra))  # batches of 8, 8, 5


@pytest.mark.parametrize("amount", [{"epochs": 3}, {"steps": 7}], ids=str)
def test_devices_of_any_size_train_side_by_side(amount: dict[str, int]) -> None:
    check_like_alone("mlp:fp32", [1, 30, 8, 21, 2, 30, 9], LocalTraining(lr=0.1, batch_size=8, **amount))


def test_devices_of_any_size_have_their_own_dropout() -> None:
    check_like_alone("fedrad_mlp:fp32", [1, 30, 8, 21, 2, 30, 9], LocalTraining(lr=0.1, batch_size=8, epochs=2))


def test_networks_of_real_width_have_the_bits_too() -> None:
    check_like_alone("mlp:fp32", [70, 70, 50], LocalTraining(lr=0.1, batch_size=32, epochs=2), side=28)


@pytest.mark.parametrize("name", ["mlp:fp32", "mlp:w1"])
@pytest.mark.parametrize("batch_size", [32, 2, 300], ids=lambda size: f"batch-{size}")  # 300: gradients are formed
def test_clipped_gradients_have_the_bits_too(name: str, batch_size: int) -> None:
    how = LocalTraining(lr=0.1, batch_size=batch_size, steps=6, momentum=0.9, clip=0.2)
    check_like_alone(name, [70, 70, 700, 50, 1], how, side=28)
    free, clipped = (train_stacked(prototype(side=28), pupils([70], 28), how) for how in (replace(how, clip=0.0), how))
    assert not all(torch.equal(a, b) for a, b in zip(free.state(0).values(), clipped.state(0).values(), strict=True))


def test_a_clip_that_does_not_bite_changes_no_bit() -> None:
    how = LocalTraining(lr=0.1, batch_size=32, steps=6, momentum=0.9)
    free, clipped = (train_stacked(prototype(), pupils([70, 40]), one) for one in (how, replace(how, clip=1e5)))
    for k in range(2):
        assert all(torch.equal(a, b) for a, b in zip(free.state(k).values(), clipped.state(k).values(), strict=True))


def test_a_device_that_diverges_leaves_the_others_as_they_are() -> None:
    how = LocalTraining(lr=0.1, batch_size=8, steps=5, momentum=0.9, clip=0.5)
    given = pupils([21, 21, 21])
    given.shelf.x[21:42] = float("inf")  # of the second
    stack = train_stacked(prototype(), given, how)
    with pytest.raises(DivergedError, match="training diverged: the gradient is not finite"):
        stack.trained(1)
    for k in (0, 2):
        alone = prototype()
        assert stack.trained(k) == train_local(alone, *samples(k, 21), how, generator=shuffle(k))
        assert all(torch.equal(stack.state(k)[name], p) for name, p in alone.named_parameters())


def test_samples_may_lie_anywhere() -> None:
    how = LocalTraining(lr=0.1, batch_size=8, epochs=2)
    given = pupils([21, 9])
    order = torch.randperm(30, generator=torch.Generator().manual_seed(5))
    x = torch.empty_like(given.shelf.x)
    x[order] = given.shelf.x  # sample i lies at order[i]
    here = train_stacked(prototype(), given, how)
    generators = [shuffle(k) for k in range(2)]
    elsewhere = replace(given, shelf=Shelf(x), rows=order, generators=generators)
    there = train_stacked(prototype(), elsewhere, how)
    for k in range(2):
        a, b = prototype(), prototype()
        here.put_into(a, k)
        there.put_into(b, k)
        assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def test_layers_without_a_bias_are_stacked_too() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3, bias=False))
    how = LocalTraining(lr=0.1, batch_size=8, epochs=1)
    before = model[1].weight.detach().clone()
    stack = train_stacked(model, pupils([16, 16]), how)
    stack.put_into(model, 1)
    alone = nn.Sequential(nn.Flatten(), nn.Linear(16, 3, bias=False))
    alone[1].weight.data.copy_(before)
    train_local(alone, *samples(1, 16), how, generator=shuffle(1))
    assert torch.equal(model[1].weight, alone[1].weight)
    assert not torch.equal(model[1].weight, before)


def test_as_many_pay_as_the_cache_holds_and_only_perceptrons() -> None:
    assert size_that_pays(prototype("mlp:fp32", side=28)) == 5  # 0.8 MB each
    assert size_that_pays(prototype("mlp:w1")) == 16
    assert size_that_pays(prototype("cnn:fp32", side=28)) == 1
    assert size_that_pays(prototype("fedrad_mlp:fp32")) == 7
    assert size_that_pays(prototype("fedrad_mlp:fp32", side=28)) == 1  # 2.1 MB each
