"""The stages of a round that go by predictors alone: trust without samples, and what devices learn from next.

trust       before the averages: what speaks against each device (doubts.py), on samples where there are some, else on
            generated latents; without samples nobody goes much further than the others (norm_bound.py)
knowledge   after them: the generator from everybody's predictors, trusted ones more; or the logits by label
refine      without samples: predictors learn what the median of all says of generated latents (refine.py)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from aggregator.fusion.generator.agreement import generated_latents
from aggregator.fusion.generator.refine import refine_predictor
from aggregator.fusion.generator.side_artifact import (
    Knowledge,
    generator_of,
    make_generator,
    make_label_logits,
    predictors_of,
)
from aggregator.fusion.pipeline.prototype import Course
from aggregator.fusion.types import Memory, Server
from aggregator.fusion.weights.doubts import (
    SENSE,
    Answers,
    Doubts,
    alone_by_counts,
    always_the_same,
    answers_of,
    mean_sense,
)
from aggregator.fusion.weights.norm_bound import REACH, drawn_back, far_off
from aggregator.fusion.weights.single_label import CUT as LEAN
from aggregator.fusion.weights.single_label import mean_leaning, one_sided
from aggregator.fusion.weights.trust import CUT, trust_of
from aggregator.recipes.catalogue import Recipe
from aggregator.recipes.generator import Generation
from models.seeding import torch_rng

__all__ = ["LATENTS", "make_knowledge", "put_trust"]

LATENTS = 512  # that predictors are asked about


def put_trust(
    recipe: Recipe, courses: Sequence[Course], server: Server, number: int, memory: Memory, scores: dict[str, float]
) -> None:
    """Say in every course how far its devices are trusted; `scores` gets those of devices that have none yet."""
    z: Tensor | None = None
    for course in courses:
        if not course.members:
            continue
        z = _latents(recipe.generation, course, server, number, memory) if z is None else z
        asked = all(update.device in scores for update in course.view.updates)  # whole models, about samples
        relative, found = trust_of(course.members, scores, z)
        scores.update({device: score for device, score in found.items() if device not in scores})
        doubts = _doubts(recipe, course, relative, z, memory)
        trust = {device: doubts.share(device, share) for device, share in relative.items()}
        course.screened = {**course.screened, **doubts.excluded}
        reach = _option(recipe, "trust_reach", REACH)
        updates = course.view.updates if asked else drawn_back(course.view.updates, course.view.previous, reach)
        course.view = replace(course.view, trust=trust, updates=updates)


def _doubts(recipe: Recipe, course: Course, relative: Mapping[str, float], z: Tensor, memory: Memory) -> Doubts:
    """What speaks against the devices of one prototype."""
    members, doubts = course.members, Doubts.of(course.members)
    cut, lean = _option(recipe, "trust_cut", CUT), _option(recipe, "trust_lean", LEAN)
    for device, share in relative.items():
        if share < cut:
            doubts.add(device, "is hardly ever the median of its prototype's devices")
    for sent in (course.view.updates, course.alone):
        for device, times in far_off(sent, course.view.previous, _option(recipe, "trust_reach", REACH)):
            doubts.add(device, f"moved {times:.0f} times as far as the others")
    if lean >= 1:
        return doubts
    leans = mean_leaning(members, memory)
    drifting = one_sided(leans, len(course.view.previous["predictor.bias"]), lean)
    devices, answers = _answers(course, z)
    sense = mean_sense(answers, devices, memory)
    same = always_the_same(dict(zip(devices, answers.most.tolist(), strict=True)))
    for device in sorted(drifting | same):
        doubts.add(device, "teaches one label and nothing else" if device in drifting else "answers with one label")
    for device, value in sense.items():
        if value < SENSE:
            doubts.add(device, f"its answers do not follow the samples (rank correlation {value:.2f})")
    for device in sorted(alone_by_counts(members)):
        doubts.add(device, "has one label alone where the others have many")
    return doubts


def _answers(course: Course, z: Tensor) -> tuple[list[str], Answers]:
    """What the course's devices say: their models to samples, beside everybody's, else their predictors to latents."""
    members = [update.device for update in course.members]
    if course.view.ensemble is None or course.alone:
        return members, answers_of(predictors_of(course.members).logits(z))
    devices, logits = course.view.ensemble.answers(LATENTS)
    at = {device: k for k, device in reversed(list(enumerate(devices)))}  # with a late model too: the first
    return members, answers_of(logits).only([at[device] for device in members])


def _option(recipe: Recipe, name: str, default: float) -> float:
    return float(recipe.options.get(name, default))


def _latents(how: Generation | None, course: Course, server: Server, number: int, memory: Memory) -> Tensor:
    """Of the generator as the last round left it; plain Gaussian ones before there is one."""
    rng = torch_rng(server.seed, "fusion", number, "trust")
    classes, latent = course.view.previous["predictor.weight"].shape
    if how is not None:
        generator, _, labels = generator_of(how, classes, latent, server, memory)
        if labels is not None:
            return generated_latents(generator, labels, LATENTS, rng=rng)
    return torch.randn(LATENTS, latent, generator=rng)


def make_knowledge(
    recipe: Recipe, courses: Sequence[Course], server: Server, number: int, memory: Memory
) -> Knowledge | None:
    """What is published beside the models; None where nobody has sent what it needs."""
    if recipe.generation is None:
        return _label_logits(recipe, courses)
    members = [update for course in courses for update in course.members]
    if not members:
        return None
    trust: list[float] | None = None
    if recipe.weigh == "trust":
        known = {device: t for course in courses for device, t in course.view.trust.items()}
        trust = [known.get(update.device, 1.0) for update in members]
        if not any(trust):
            trust = None
    made = make_generator(recipe.generation, members, server, number, memory, trust)
    if recipe.refine and server.source is None:
        _refine(recipe.generation, recipe.refine, courses, server, number, memory)
    return made


def _refine(
    how: Generation, steps: int, courses: Sequence[Course], server: Server, number: int, memory: Memory
) -> None:
    """Teach every prototype's predictor what the median of all trusted ones says of generated latents."""
    trusted = [u for course in courses for u in course.members if course.view.trust.get(u.device, 1.0)]
    if not trusted:
        return
    teachers = predictors_of(trusted)
    _, classes, latent = teachers.weight.shape
    generator, _, labels = generator_of(how, classes, latent, server, memory)
    if labels is None:
        return
    for course in courses:
        if course.members:
            rng = course.view.rng("refine")
            course.state = refine_predictor(course.state, teachers, generator, labels, steps, rng=rng)
            course.keep_if_broken()


def _label_logits(recipe: Recipe, courses: Sequence[Course]) -> Knowledge | None:
    sent = [update for course in courses for update in course.group.updates if not update.late]
    if not sent:
        return None
    classes, latent = courses[0].view.previous["predictor.weight"].shape
    return make_label_logits(sent, classes, latent, reference=recipe.label_logits == "all")
