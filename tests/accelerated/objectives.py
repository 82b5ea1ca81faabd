"""Every objective on the pretend accelerator gives the CPU's model, and what it keeps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from edge_agent.objectives.feddistill import LabelLogits
from edge_agent.objectives.fedgen_weights import PAPER, REFERENCE
from edge_agent.objectives.personal import Personal, train_personal
from edge_agent.objectives.select import make_objective
from edge_agent.objectives.side_artifact import SideArtifact
from edge_agent.training.local_round import local_update
from edge_agent.training.params import LocalTraining
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from models.split import Prototype
from quant.pack import pack_state
from tests import accelerator
from tests.edge_agent.generators import small_latents

torch.set_num_threads(1)
ACC, CPU = torch.device(accelerator.NAME), torch.device("cpu")
CLASSES, LATENT = 3, 8
HOW = LocalTraining(lr=0.02, batch_size=5, steps=12, momentum=0.9, clip=1.0, fast="off")
TEACHER = SideArtifact(label_logits=np.eye(CLASSES, dtype=np.float32) * 3)
OBJECTIVES = {
    "FedGen, paper": (SideArtifact(latents=small_latents(CLASSES, LATENT)), PAPER.to_extra()),
    "FedGen, reference": (SideArtifact(latents=small_latents(CLASSES, LATENT)), REFERENCE.to_extra()),
    "FedDistill, first round": (SideArtifact(), {"label_logits": 1.0}),
    "FedDistill": (TEACHER, {"label_logits": 0.5}),
}


def fresh(name: str, seed: int = 1) -> Prototype:
    spec = PrototypeSpec(*parse_prototype(name), (1, 8, 8), CLASSES, LATENT)
    return build(spec, generator=torch.Generator().manual_seed(seed))


def samples() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(16, 1, 8, 8, generator=torch.Generator().manual_seed(2)), torch.arange(16) % CLASSES


def guided(name: str, objective: str, device: torch.device, amp: str = "off") -> dict[str, torch.Tensor]:
    model, (artifact, extra) = fresh(name), OBJECTIVES[objective]
    seen = LabelLogits.fresh(CLASSES)
    how = LocalTraining(lr=0.02, batch_size=5, steps=12, momentum=0.9, clip=1.0, fast="off", amp=amp)
    asked = {"seed": 1, "number": 2, "device": "pi", "seen": seen, "compute_device": device}
    accelerator.fresh()
    _, trained = local_update(
        model,
        pack_state(model.state_dict()),
        *samples(),
        how,
        floats="fp32",
        generator=torch.Generator().manual_seed(3),
        objective=make_objective(artifact, extra, **asked),  # type: ignore[arg-type]
        device=device,
    )
    assert accelerator.used() == (device.type == "acc")
    return {**model.state_dict(), **seen.state(), "means": seen.means(), "loss": torch.tensor(trained.loss)}


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", ["mlp:fp32", "cnn:w1"])
def test_a_guided_model_and_what_is_counted_are_those_of_the_cpu(name: str, objective: str) -> None:
    here, there = guided(name, objective, CPU), guided(name, objective, ACC)
    for key, w in here.items():
        assert there[key].device == CPU
        torch.testing.assert_close(there[key], w, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("objective", ["FedGen, paper", "FedDistill"])
def test_losses_are_computed_at_float32_in_mixed_precision(objective: str) -> None:
    mixed, plain = guided("mlp:fp32", objective, CPU, "bf16"), guided("mlp:fp32", objective, CPU)
    assert mixed["loss"].item() == pytest.approx(plain["loss"].item(), rel=0.1)
    assert not torch.equal(mixed["predictor.weight"], plain["predictor.weight"])


@pytest.mark.parametrize(("name", "weight"), [("mlp:fp32", 0.0), ("mlp:fp32", 0.5), ("cnn:w4a4", 0.5)])
def test_a_personal_model_is_that_of_the_cpu(name: str, weight: float) -> None:
    def personal(device: torch.device) -> dict[str, np.ndarray]:
        x, y = samples()
        kept, published = (pack_state(fresh(name, seed).state_dict(), floats="fp32") for seed in (4, 5))
        _, stored = train_personal(
            fresh(name),
            kept,
            published,
            fresh(name, 6).state_dict(),
            x,
            y,
            HOW,
            asked=Personal(weight, 0.5),
            floats="fp32",
            generator=torch.Generator().manual_seed(3),
            device=device,
        )
        return stored  # type: ignore[return-value]

    here, there = personal(CPU), personal(ACC)
    for key, w in here.items():
        np.testing.assert_allclose(there[key], w, rtol=1e-5, atol=1e-5)
