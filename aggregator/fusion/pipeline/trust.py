"""The trust stage: before the averages, a part assigns trust to every prototype's devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from aggregator.fusion.generator.agreement import generated_latents
from aggregator.fusion.generator.side_artifact import generator_of
from aggregator.fusion.pipeline.prototype import Course
from aggregator.fusion.types import Memory, Server, Trusted
from aggregator.recipes.catalogue import Recipe
from aggregator.recipes.generator import Generation
from aggregator.recipes.parts import find_part
from core.errors import RoundError
from models.seeding import torch_rng

__all__ = ["LATENTS", "put_trust"]

LATENTS = 512  # on which predictors are evaluated


def put_trust(
    recipe: Recipe,
    courses: Sequence[Course],
    server: Server,
    round_number: int,
    memory: Memory,
    scores: dict[str, float],
) -> None:
    """Set the trust of every course's devices; adds `scores` of devices that have none yet."""
    assert recipe.trust is not None
    part, latents = find_part("trust", recipe.trust), None
    for course in courses:
        if not course.members:
            continue
        if latents is None and "latents" in recipe.needs:
            latents = _latents(recipe.generation, course, server, round_number, memory)
        view = replace(course.view, alone=course.alone, scores=dict(scores), latents=latents)
        trusted: Trusted = part(view)
        _check(recipe, course, trusted)
        scores.update({device: score for device, score in trusted.scores.items() if device not in scores})
        course.screened = {**course.screened, **trusted.excluded}
        updates = course.view.updates if trusted.updates is None else trusted.updates
        course.view = replace(course.view, trust=trusted.shares, updates=updates)


def _check(recipe: Recipe, course: Course, trusted: Trusted) -> None:
    if not isinstance(trusted, Trusted) or not all(0 <= share <= 1 for share in trusted.shares.values()):
        raise RoundError(f"{course.name}: trust.{recipe.trust} gave no Trusted with shares from 0 to 1")


def _latents(config: Generation | None, course: Course, server: Server, round_number: int, memory: Memory) -> Tensor:
    """Latents of the last round's generator; Gaussian ones before there is one."""
    rng = torch_rng(server.seed, "fusion", round_number, "trust")
    classes, latent = course.view.previous["predictor.weight"].shape
    if config is not None:
        generator, _, labels = generator_of(config, classes, latent, server, memory)
        if labels is not None:
            return generated_latents(generator, labels, LATENTS, rng=rng)
    return torch.randn(LATENTS, latent, generator=rng)
