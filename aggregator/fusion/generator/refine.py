"""Predictors refined on generated latents: distillation without samples on the aggregator.

Without samples extractors cannot be taught, but predictors can: the generator provides latents z of all labels, and the
median logits of the trusted predictors of all prototypes (FedRAD's teacher) are the targets.

    theta <- argmin KL( softmax(median_k theta_k(z)) || softmax(theta(z)) ),     theta from the prototype's average

By Adam, on `steps` batches of generated latents; the gradient of a linear predictor is computed in closed form.
"""

from __future__ import annotations

import torch
from torch import Tensor

from aggregator.fusion.generator.agreement import generated_latents
from aggregator.fusion.generator.train import Teachers
from aggregator.fusion.numerics.adam import Adam
from aggregator.fusion.teachers.combine import median_logits
from aggregator.fusion.types import State
from models.generator import LatentGenerator

__all__ = ["refine_predictor"]

WEIGHT, BIAS = "predictor.weight", "predictor.bias"
BATCH, LR = 64, 1e-3


@torch.no_grad()
def refine_predictor(
    state: State, teachers: Teachers, generator: LatentGenerator, labels: Tensor, steps: int, *, rng: torch.Generator
) -> State:
    """`state` with its predictor taught by `teachers`, on latents of labels drawn from p(y) `labels`."""
    weight, bias = state[WEIGHT].clone(), state[BIAS].clone()
    adam = Adam.fresh([weight, bias])
    for z in generated_latents(generator, labels, steps * BATCH, rng=rng).split(BATCH):
        wanted = median_logits(teachers.logits(z)).softmax(1)
        error = (torch.addmm(bias, z, weight.T).softmax(1) - wanted) / len(z)  # (B, C)
        adam.step([weight, bias], [error.T @ z, error.sum(0)], lr=LR)
    return {**state, WEIGHT: weight, BIAS: bias}
