"""One round, fused: every prototype's updates in, the next model of each out. Pure: no disk, no clock but a stopwatch.

    screen -> weigh -> average     per prototype, over the whole models that came in time (courses.py)
    teach                          once, over the whole models of all prototypes, late ones too (teaching.py)
    distill                        per prototype: the student starts from its own average

The same inputs and the same memory give the same bits.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from aggregator.fusion.courses import Course, average, screen, weigh
from aggregator.fusion.types import Fused, Group, Memory, Server
from aggregator.recipes import Recipe

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


def fuse_round(recipe: Recipe, groups: Sequence[Group], server: Server, number: int, memory: Memory) -> Fused:
    """Fuse round `number` by `recipe`; `memory` is that of the round before and is left as it is.

    Prototypes are taken in the order of their names, whatever the order of `groups`. A model that came out with NaN or
    infinity (an average of numbers near the end of float32) is not used: the prototype keeps the one it has.
    """
    memory = Memory(tensors=dict(memory.tensors), facts=copy.deepcopy(memory.facts))
    watch = Stopwatch()
    with watch("screen"):
        ordered = sorted(groups, key=lambda group: group.name)
        courses = [screen(recipe, group, server, number, memory) for group in ordered]
    scores: dict[str, float] = {}
    if recipe.needs_source or server.source is not None:
        scores = _taught(recipe, courses, server, number, watch)
    else:
        _averaged(recipe, courses, watch)
    for course in courses:
        course.keep_if_broken()
    return Fused(
        states={course.name: course.state for course in courses},
        memory=memory,
        devices={name: report for course in courses for name, report in course.reports(scores).items()},
        metrics={course.name: course.metrics for course in courses},
        seconds=watch.seconds,
    )


def _averaged(recipe: Recipe, courses: Sequence[Course], watch: Stopwatch) -> None:
    with watch("weigh"):
        for course in courses:
            course.weights = weigh(recipe, course.view)
    with watch("average"):
        for course in courses:
            course.state = average(recipe, course)


def _taught(
    recipe: Recipe, courses: Sequence[Course], server: Server, number: int, watch: Stopwatch
) -> dict[str, float]:
    """All stages where the aggregator has samples; the teachers' scores, if the recipe has any."""
    from aggregator.fusion import teaching  # ONNX Runtime: not for rounds that only average

    lesson = teaching.prepare(recipe, courses, server, number)
    if lesson is None:
        _averaged(recipe, courses, watch)
        return {}
    ensemble, scores = lesson.ensemble, dict[str, float]()
    if recipe.weigh == "median-score":
        with watch("teach"):  # one pass gives scores and targets
            scores = dict(zip(ensemble.devices, ensemble.scores().tolist(), strict=True))
    for course in courses:
        course.view = replace(course.view, ensemble=ensemble)
    _averaged(recipe, courses, watch)
    if recipe.teach is not None:
        with watch("teach"):
            ensemble = teaching.teach(recipe, courses, lesson, server)
        with watch("score"):
            teaching.report(courses, ensemble, server)
        with watch("distill"):
            teaching.learn(recipe, courses, lesson, ensemble, server)
    return scores
