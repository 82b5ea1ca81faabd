"""The pretend accelerator by its name; a model on it for a while, and masks of dropout that are the CPU's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from core.errors import ConfigError
from edge_agent.training import batches
from models.compute_device import find_device, has_accelerator, initialized
from models.on_device import device_of, on_device, seeded_on
from tests import accelerator

ACC, CPU = torch.device(accelerator.NAME), torch.device("cpu")
X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


def net() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))


def masked(device: torch.device, count: int = 2) -> list[Tensor]:
    model, generator = net(), torch.Generator().manual_seed(7)
    with on_device(model, device), seeded_on(device, generator, model):
        answers = [model(X.to(device)).detach().cpu() for _ in range(count)]
    return [*answers, torch.rand(1, generator=generator)]


def test_a_registered_accelerator_is_found_by_its_name() -> None:
    assert find_device("acc") == torch.device("acc")
    with pytest.raises(ConfigError, match="compute device 'acc:1': torch finds 1 ACC devices; give auto or cpu"):
        find_device("acc:1")
    assert has_accelerator()


def test_a_process_that_has_used_a_device_is_known() -> None:
    accelerator.fresh()
    assert not initialized(torch.device("acc"))
    torch.zeros(2, device="acc")
    assert initialized(torch.device("acc"))
    assert not initialized(CPU)


def test_a_model_is_on_its_device_for_a_while() -> None:
    model = net()
    with on_device(model, ACC):
        assert device_of(model).type == "acc"
        assert model(X.to(ACC)).device.type == "acc"
    assert device_of(model) == CPU
    with pytest.raises(KeyError), on_device(model, ACC):
        raise KeyError
    assert device_of(model) == CPU, "after an error too"
    assert device_of(nn.ReLU()) == CPU


def test_masks_of_dropout_and_what_is_drawn_after_them_are_those_of_the_cpu() -> None:
    there, here = masked(ACC), masked(CPU)
    assert all(torch.equal(a, b) for a, b in zip(there, here, strict=True))
    assert not torch.equal(there[0], there[1]), "or the masks would never change"


def test_elsewhere_the_global_random_state_is_not_touched() -> None:
    before = torch.get_rng_state()
    masked(ACC)
    assert torch.equal(torch.get_rng_state(), before)


def test_dropout_is_as_before_afterwards_and_off_in_evaluation() -> None:
    model = net().to(ACC)
    with seeded_on(ACC, torch.Generator().manual_seed(7), model):
        model.eval()
        assert torch.equal(model(X.to(ACC)).cpu(), model.cpu()(X))
    assert "forward" not in vars(model[1])


def test_what_draws_on_the_device_itself_is_seeded() -> None:
    class Own(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.dropout(x, 0.5)

    def drawn(seed: int) -> Tensor:
        with seeded_on(ACC, torch.Generator().manual_seed(seed), model := Own()):
            return model(torch.ones(100, device=ACC)).cpu()

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


@pytest.mark.parametrize("resident", [10**6, 0])
def test_a_mini_batch_is_on_the_device_and_small_sets_are_moved_once(
    resident: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "RESIDENT", resident)
    y, chosen = torch.arange(6), torch.tensor([4, 1])
    samples = batches.Samples(X, y, ACC)
    assert samples._x.device.type == ("acc" if resident else "cpu")
    taken = samples.take(chosen)
    assert {part.device.type for part in (*taken, samples.zero())} == {"acc"}
    assert torch.equal(taken[0].cpu(), X[chosen])
    assert torch.equal(taken[1].cpu(), y[chosen])
    assert samples.zero().dtype == torch.float64
