"""Which objective a job has."""

import numpy as np
import pytest
import torch

from edge_agent.objectives.feddistill import DistilledObjective, LabelLogits
from edge_agent.objectives.fedgen import GeneratedObjective
from edge_agent.objectives.fedgen_weights import REFERENCE
from edge_agent.objectives.select import counts_logits, guidance_rng, make_objective
from edge_agent.objectives.side_artifact import SideArtifact
from edge_agent.training.sgd import Objective
from tests.edge_agent.generators import small_latents

GENERATOR = SideArtifact(latents=small_latents(3, 4))


def made(side_artifact: SideArtifact, extra: dict[str, float], seen: LabelLogits | None = None) -> Objective | None:
    return make_objective(side_artifact, extra, seed=1, number=2, device="pi-1", seen=seen)


def test_without_anything_to_learn_from_it_is_the_plain_loss() -> None:
    assert made(SideArtifact(), {"prox": 0.1}) is None


def test_a_generator_guides_by_the_numbers_of_the_job() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.extractor, self.predictor = torch.nn.Identity(), torch.nn.Linear(4, 3)

    objective, net, z, y = made(GENERATOR, REFERENCE.to_extra()), Net(), torch.zeros(2, 4), torch.tensor([0, 1])
    same = GeneratedObjective(small_latents(3, 4), REFERENCE, 2, rng=guidance_rng(1, 2, "pi-1"))
    assert objective is not None
    assert torch.equal(objective(net, z, y), same(net, z, y))


def test_devices_and_rounds_draw_differently() -> None:
    draws = {guidance_rng(*who).integers(2**60) for who in ((1, 2, "a"), (1, 2, "b"), (1, 3, "a"), (2, 2, "a"))}
    assert len(draws) == 4
    assert guidance_rng(1, 2, "a").integers(2**60) in draws


@pytest.mark.parametrize("logits", [None, np.eye(3, dtype=np.float32)])
def test_a_job_that_asks_for_logits_counts_them(logits: np.ndarray | None) -> None:
    seen = LabelLogits.fresh(3)
    objective = made(SideArtifact(label_logits=logits), {"label_logits": 1.0}, seen)
    assert isinstance(objective, DistilledObjective)
    objective(torch.nn.Linear(4, 3), torch.zeros(2, 4), torch.tensor([0, 2]))
    assert seen.counts.tolist() == [1.0, 0.0, 1.0]


def test_only_the_number_in_the_job_asks_for_logits() -> None:
    assert counts_logits({"label_logits": 0.5})
    assert not counts_logits({"prox": 1.0})
