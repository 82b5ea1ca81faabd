"""The stages after the averages that use only predictors.

side artifact   for devices to learn from: a generator trained on all predictors, weighted by trust; or logits by label
refine          without samples: predictors learn the median logits of all on generated latents (refine.py)
"""

from __future__ import annotations

from collections.abc import Sequence

from aggregator.fusion.generator.refine import refine_predictor
from aggregator.fusion.generator.side_artifact import (
    SideArtifact,
    generator_of,
    make_generator,
    make_label_logits,
    predictors_of,
)
from aggregator.fusion.pipeline.prototype import Course
from aggregator.fusion.types import Memory, Server
from aggregator.recipes.catalogue import Recipe
from aggregator.recipes.generator import Generation

__all__ = ["make_side_artifact"]


def make_side_artifact(
    recipe: Recipe, courses: Sequence[Course], server: Server, round_number: int, memory: Memory
) -> SideArtifact | None:
    """The side artifact to publish; None if no device has sent its inputs."""
    if recipe.generation is None:
        return _label_logits(recipe, courses)
    members = [update for course in courses for update in course.members]
    if not members:
        return None
    known = {device: t for course in courses for device, t in course.view.trust.items()}
    trust = [known.get(update.device, 1.0) for update in members] if any(known.values()) else None
    made = make_generator(recipe.generation, members, server, round_number, memory, trust)
    if recipe.refine and server.source is None:
        _refine(recipe.generation, recipe.refine, courses, server, round_number, memory)
    return made


def _refine(
    config: Generation, steps: int, courses: Sequence[Course], server: Server, round_number: int, memory: Memory
) -> None:
    """Teach every prototype's predictor the median logits of all trusted ones on generated latents."""
    trusted = [u for course in courses for u in course.members if course.view.trust.get(u.device, 1.0)]
    if not trusted:
        return
    teachers = predictors_of(trusted)
    _, classes, latent = teachers.weight.shape
    generator, _, labels = generator_of(config, classes, latent, server, memory)
    if labels is None:
        return
    for course in courses:
        if course.members:
            rng = course.view.rng("refine")
            course.state = refine_predictor(course.state, teachers, generator, labels, steps, rng=rng)
            course.keep_if_broken()


def _label_logits(recipe: Recipe, courses: Sequence[Course]) -> SideArtifact | None:
    sent = [update for course in courses for update in course.group.updates if not update.late]
    if not sent:
        return None
    classes, latent = courses[0].view.previous["predictor.weight"].shape
    return make_label_logits(sent, classes, latent, reference=recipe.label_logits == "all")
