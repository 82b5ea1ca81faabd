"""A model on the CPU, where nothing is moved; tests/accelerated/masks.py has another device."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from models.on_device import device_of, on_device, seeded_on
from models.seeding import seeded

CPU = torch.device("cpu")
X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


def test_on_the_cpu_a_model_stays_what_it_is() -> None:
    model = nn.Linear(4, 2)
    weight = model.weight
    with pytest.raises(KeyError), on_device(model, CPU):
        raise KeyError
    assert model.weight is weight
    assert device_of(model) == CPU
    assert device_of(nn.ReLU()) == CPU


def test_on_the_cpu_masks_are_drawn_by_torch_itself_from_a_seeded_state() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5))
    generators = [torch.Generator().manual_seed(7) for _ in range(2)]
    with seeded_on(CPU, generators[0], model):
        assert "forward" not in vars(model[1])
        one = model(X)
    with seeded(generators[1]):
        other = model(X)
    assert torch.equal(one, other)
    assert torch.equal(generators[0].get_state(), generators[1].get_state()), "both are advanced by one draw"
