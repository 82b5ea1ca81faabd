"""One round, fused: every prototype's updates in, the next model of each out. Pure: no disk, no clock but a stopwatch.

    screen -> weigh -> average     per prototype, over the whole models that came in time
    teach                          once, over the whole models of all prototypes, late ones too
    distill                        per prototype: the student starts from its own average (FedDF Algorithm 3)

Predictors that came alone are averaged with the predictors of their prototype's whole models; they never teach
inputs. A prototype of which no whole model is left keeps its extractor.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from torch import Tensor

from aggregator.fusion.parts import find_part
from aggregator.fusion.types import DeviceReport, Fused, Group, Memory, Received, Server, State, View
from aggregator.recipes import Recipe
from models.roles import merge_state, slice_state
from wire.errors import RoundError

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


@dataclass(slots=True, kw_only=True)
class Course:
    """One prototype on its way through the stages."""

    group: Group
    view: View
    screened: dict[str, str]
    weights: Sequence[float] = ()
    state: State = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The prototype's."""
        return self.group.name


def fuse_round(recipe: Recipe, groups: Sequence[Group], server: Server, number: int, memory: Memory) -> Fused:
    """Fuse round `number` by `recipe`; `memory` is that of the round before and is left as it is."""
    memory = Memory(tensors=dict(memory.tensors), facts=copy.deepcopy(memory.facts))
    watch = Stopwatch()
    with watch("screen"):
        courses = [_screened(recipe, group, server, number, memory) for group in groups]
    with watch("weigh"):
        for course in courses:
            course.weights = _weights(recipe, course.view)
    with watch("average"):
        for course in courses:
            course.state = _average(recipe, course)
    return Fused(
        states={course.name: course.state for course in courses},
        memory=memory,
        devices={name: report for course in courses for name, report in _reports(course).items()},
        metrics={course.name: {} for course in courses},
        seconds=watch.seconds,
    )


def _screened(recipe: Recipe, group: Group, server: Server, number: int, memory: Memory) -> Course:
    whole = [update for update in group.updates if not update.predictor_only and not update.late]
    view = View(
        spec=group.spec,
        number=number,
        previous=group.previous,
        updates=whole,
        memory=memory,
        options=recipe.options,
        server=server,
    )
    screened: dict[str, str] = {}
    for name in recipe.screen:
        if not view.updates:
            break
        reasons = find_part("screen", name)(view)
        _check_length(f"screen.{name}", reasons, view)
        screened |= {u.device: reason for u, reason in zip(view.updates, reasons, strict=True) if reason is not None}
        view = replace(view, updates=[u for u in view.updates if u.device not in screened])
    return Course(group=group, view=view, screened=screened)


def _weights(recipe: Recipe, view: View) -> Sequence[float]:
    if not view.updates:
        return ()
    weights: Sequence[float] = find_part("weigh", recipe.weigh)(view)
    _check_length(f"weigh.{recipe.weigh}", weights, view)
    if not all(weight >= 0 for weight in weights) or not sum(weights) > 0:  # NaN is refused too
        raise RoundError(f"{view.spec}: weigh.{recipe.weigh} gave {list(weights)[:5]}; weights are >= 0 and not all 0")
    return weights


def _check_length(part: str, answer: Sequence[object], view: View) -> None:
    if len(answer) != len(view.updates):
        raise RoundError(f"{view.spec}: {part} gave {len(answer)} values for {len(view.updates)} updates")


def _average(recipe: Recipe, course: Course) -> State:
    """Over the whole models; predictors that came alone join in for the predictor's tensors."""
    average = find_part("average", recipe.average)
    view, alone = course.view, [u for u in course.group.updates if u.predictor_only and not u.late]
    state: State = average(view, course.weights) if view.updates else dict(view.previous)
    if alone:
        merged, weights = _with_predictors(course, alone)
        state = merge_state(state, average(merged, weights))
    return state


def _with_predictors(course: Course, alone: Sequence[Received]) -> tuple[View, Sequence[float]]:
    """The predictors of all devices, by id. Whole models keep their weights, scaled to the examples behind them."""
    view = course.view
    scale = sum(view.num_examples) / sum(course.weights) if view.updates else 1.0
    weighed = [(_predictor(u), w * scale) for u, w in zip(view.updates, course.weights, strict=True)]
    weighed += [(u, u.num_examples) for u in alone]
    weighed.sort(key=lambda pair: pair[0].device)
    previous = slice_state(view.previous, "predictor")
    merged = replace(view, previous=previous, updates=[update for update, _ in weighed])
    return merged, [weight for _, weight in weighed]


def _predictor(update: Received) -> Received:
    def state() -> Mapping[str, Tensor]:
        return slice_state(update.state(), "predictor")

    return replace(update, state=state, predictor_only=True)


def _reports(course: Course) -> dict[str, DeviceReport]:
    total = sum(course.weights)
    reports = {device: DeviceReport(weight=0.0, screened=why) for device, why in course.screened.items()}
    for update, weight in zip(course.view.updates, course.weights, strict=True):
        reports[update.device] = DeviceReport(weight=weight / total)
    return reports
