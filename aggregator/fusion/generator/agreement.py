"""Agreement of devices on generated latents: FedRAD's median scores without samples on the aggregator.

FedRAD (Sturluson et al. 2021) evaluates every model on unlabeled inputs. Without inputs, every predictor is evaluated
on latents of the generator:

    score_k = fraction of (b, c) for which device k's logit is the median over all devices      sum_k = 1

The rule is that of `aggregator/fusion/teachers/median_score.py`: one device is credited for each median. A predictor
with noise or flipped labels is rarely the median and scores close to 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from aggregator.fusion.generator.train import Teachers
from aggregator.fusion.teachers.combine import median_logits
from aggregator.fusion.teachers.median_score import count_medians
from models.generator import LatentGenerator

__all__ = ["agreement", "generated_latents"]

BLOCK_VALUES = 2_000_000  # logits in memory at once: 8 MB


def generated_latents(generator: LatentGenerator, labels: Tensor, count: int, *, rng: torch.Generator) -> Tensor:
    """`count` latents (count, D) of labels drawn from p(y) `labels` (C,)."""
    drawn = torch.multinomial(labels, count, replacement=True, generator=rng)
    return generator.sample(drawn, generator=rng)


@torch.no_grad()
def agreement(teachers: Teachers, z: Tensor) -> Tensor:
    """Scores (K,) on latents `z` (B, D); they sum to 1."""
    count, classes, _ = teachers.weight.shape
    hits = torch.zeros(count, dtype=torch.long)
    for block in z.split(max(BLOCK_VALUES // (count * classes), 1)):
        logits = teachers.logits(block)
        hits += count_medians(logits, median_logits(logits))
    return hits / hits.sum()
