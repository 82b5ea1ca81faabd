"""The objective of a job, chosen by `Hyper.extra` and the side artifact.

    a generator                      FedGen's guided loss, by the numbers `generated_*` (`fedgen_weights.py`)
    label_logits = weight            FedDistill: logits are counted by label; those of the fleet teach, once available
    neither                          None: only the cross-entropy

Real and simulated devices build it here, from the same seed, so their results are bit-identical.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from core.seeds import derive_seed
from edge_agent.objectives.feddistill import DistilledObjective, LabelLogits
from edge_agent.objectives.fedgen import GeneratedObjective
from edge_agent.objectives.fedgen_weights import Guidance
from edge_agent.objectives.side_artifact import SideArtifact
from edge_agent.training.sgd import Objective
from models.compute_device import CPU
from models.roles import LABEL_LOGITS

__all__ = ["WEIGHT", "counts_logits", "guidance_rng", "make_objective"]

WEIGHT = "label_logits"  # of the fleet's logits in the loss


def counts_logits(extra: Mapping[str, float]) -> bool:
    """Whether the job requests logits by label."""
    return WEIGHT in extra


def guidance_rng(seed: int, number: int, device: str) -> np.random.Generator:
    """Seed of the labels and noise that a device draws in a round."""
    return np.random.default_rng(derive_seed(seed, "generated", number, device))


def make_objective(
    side_artifact: SideArtifact,
    extra: Mapping[str, float],
    *,
    seed: int,
    number: int,
    device: str,
    seen: LabelLogits | None = None,
    compute_device: torch.device = CPU,
) -> Objective | None:
    """The objective, whose tensors are on `compute_device`; `seen` counts the logits if the job requests them, and is
    updated by training."""
    if counts_logits(extra):
        assert seen is not None, f"{LABEL_LOGITS} are counted somewhere"
        teacher = None if side_artifact.label_logits is None else torch.from_numpy(side_artifact.label_logits)
        return DistilledObjective(seen, teacher, weight=extra[WEIGHT], device=compute_device)
    if side_artifact.latents is None:
        return None
    rng = guidance_rng(seed, number, device)
    how = Guidance.from_extra(extra)
    return GeneratedObjective(side_artifact.latents, how, number, rng=rng, device=compute_device)
