"""Fusion of one round: every prototype's updates in, the next model of each out. Pure: no disk; time is only measured.

    cap                            bounds the reported number of examples by a multiple of the median (example_cap.py)
    screen -> trust                per prototype: excluded devices, and trust in the others (trust.py)
    weigh -> average               per prototype, over the timely whole models (prototype.py)
    teach                          once, over the whole models of all prototypes, including late ones (distillation.py)
    distill                        per prototype: the student starts from its own average
    generate                       once: the side artifact for the next round, from all predictors (generator.py)

The same inputs and the same memory give the same bits.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from aggregator.fusion.example_cap import cap_examples
from aggregator.fusion.pipeline.prototype import Course, average, screen, weigh
from aggregator.fusion.types import Fused, Group, Memory, Server
from aggregator.recipes.catalogue import Recipe

__all__ = ["fuse_round"]


@dataclass(slots=True)
class Stopwatch:
    """Seconds by stage."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """State shared by all stages."""

    recipe: Recipe
    courses: Sequence[Course]
    server: Server
    round_number: int
    memory: Memory
    watch: Stopwatch = field(default_factory=Stopwatch)
    scores: dict[str, float] = field(default_factory=dict)  # by device


def fuse_round(recipe: Recipe, groups: Sequence[Group], server: Server, round_number: int, memory: Memory) -> Fused:
    """Fuse round `round_number` by `recipe`; `memory` is that of the previous round and is not modified.

    Prototypes are processed in the order of their names, whatever the order of `groups`. A resulting model with NaN or
    infinity (an average of values near the limits of float32) is not used: the prototype keeps its current one.
    """
    memory = Memory(tensors=dict(memory.tensors), facts=copy.deepcopy(memory.facts))
    watch = Stopwatch()
    with watch("screen"):
        ordered = sorted(groups, key=lambda group: group.name)
        bounded, capped = cap_examples(ordered, recipe.max_examples_ratio, across=recipe.generation is not None)
        courses = [screen(recipe, group, server, round_number, memory) for group in bounded]
    this = _Round(recipe=recipe, courses=courses, server=server, round_number=round_number, memory=memory, watch=watch)
    if recipe.needs_source or server.source is not None:
        _taught(this)
    else:
        _averaged(this)
    for course in courses:
        course.keep_if_broken()
    side_artifact = None
    if recipe.side_artifact is not None:
        from aggregator.fusion.pipeline.generator import make_side_artifact

        with watch("generate"):
            side_artifact = make_side_artifact(recipe, courses, server, round_number, memory)
    if recipe.ensemble and server.test is not None:
        from aggregator.fusion.pipeline.distillation import report_together

        with watch("score"):
            report_together(courses, server, round_number)
    return Fused(
        states={course.name: course.state for course in courses},
        memory=memory,
        devices={name: report for course in courses for name, report in course.reports(this.scores, capped).items()},
        metrics={course.name: course.metrics for course in courses},
        seconds=watch.seconds,
        side_artifact=side_artifact,
    )


def _averaged(this: _Round) -> None:
    with this.watch("weigh"):
        if this.recipe.trust is not None:
            from aggregator.fusion.pipeline.trust import put_trust

            put_trust(this.recipe, this.courses, this.server, this.round_number, this.memory, this.scores)
        for course in this.courses:
            course.weights = weigh(this.recipe, course.view)
    with this.watch("average"):
        for course in this.courses:
            course.state = average(this.recipe, course)


def _taught(this: _Round) -> None:
    """All stages if the aggregator has samples."""
    from aggregator.fusion.pipeline import distillation as teaching  # ONNX Runtime: only for rounds that teach

    recipe, courses, watch = this.recipe, this.courses, this.watch
    lesson = teaching.prepare(recipe, courses, this.server, this.round_number)
    if lesson is None:
        _averaged(this)
        return
    ensemble = lesson.ensemble
    if "scores" in recipe.needs:
        with watch("teach"):  # one pass computes scores and targets
            this.scores.update(zip(ensemble.devices, ensemble.scores().tolist(), strict=True))
    for course in courses:
        course.view = replace(course.view, ensemble=ensemble, scores=this.scores)
    _averaged(this)
    if recipe.teach is not None:
        try:
            with watch("teach"):
                ensemble = teaching.teach(recipe, courses, lesson, this.server)
        except teaching.UnansweredError:  # caused by received models: no distillation, the averages are used
            for course in courses:
                course.metrics["untaught"] = 1.0
            return
        with watch("score"):
            teaching.report(courses, ensemble, this.server)
        with watch("distill"):
            teaching.learn(recipe, courses, lesson, ensemble, this.server)
