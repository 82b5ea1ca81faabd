"""Operations of local training, counted by hand."""

from __future__ import annotations

import pytest
import torch

from edge_agent.training.params import LocalTraining
from fleet.virtual.work import forward_flops, samples_seen, training_flops
from models.build import build
from models.spec import PrototypeSpec, parse_prototype


def model_of(name: str) -> torch.nn.Module:
    arch, precision = parse_prototype(name)
    return build(PrototypeSpec(arch, precision, (1, 4, 4), 10, 32), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["mlp:fp32", "mlp:w1"])
def test_a_forward_pass_is_counted_by_its_products(name: str) -> None:
    model = model_of(name).train()
    # 16-200-200, an adapter to the latent width of 32, 32-10
    assert forward_flops(model) == 2 * (16 * 200 + 200 * 200 + 200 * 32 + 32 * 10)  # type: ignore[arg-type]
    assert model.training


def test_samples_are_counted_with_their_repetitions() -> None:
    epochs = LocalTraining(lr=0.1, batch_size=8, epochs=3)
    assert samples_seen(epochs, 20) == 60
    # an epoch of 20 has batches of 8, 8 and 4: 7 steps are two epochs and one batch
    assert samples_seen(LocalTraining(lr=0.1, batch_size=8, steps=7), 20) == 48
    assert samples_seen(LocalTraining(lr=0.1, batch_size=32, steps=2), 20) == 40
    bounded = LocalTraining(lr=0.1, batch_size=8, epochs=2, least_steps=7, most_steps=8)
    assert samples_seen(bounded, 20) == 48  # 6 steps, and one more
    assert samples_seen(bounded, 80) == 64  # 20 steps, cut to 8
    assert training_flops(100.0, epochs, 20) == 18_000.0
