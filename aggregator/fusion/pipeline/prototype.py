"""The stages of one prototype: screen, weigh, average.

Predictor-only updates are averaged with the predictors of their prototype's whole models. A prototype without any
remaining whole model, or whose updates all have weight 0, keeps its extractor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from aggregator.fusion.example_cap import Capped
from aggregator.fusion.types import DeviceReport, Group, Memory, Received, Server, State, View
from aggregator.recipes.catalogue import Recipe
from aggregator.recipes.parts import find_part
from core.errors import RoundError
from models.roles import merge_state, slice_state

__all__ = ["Course", "average", "screen", "weigh"]


@dataclass(slots=True, kw_only=True)
class Course:
    """The intermediate results of one prototype's round."""

    group: Group
    view: View  # of the timely whole models that passed the screens
    late: Sequence[Received]  # whole models that passed the screens, and only teach
    screened: Mapping[str, str]  # device: why
    weights: Sequence[float] = ()
    alone_shares: Mapping[str, float] = field(default_factory=dict)  # of predictor-only updates, among all predictors
    state: State = field(default_factory=dict)  # the next model
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the prototype."""
        return self.group.name

    @property
    def alone(self) -> list[Received]:
        """Timely predictor-only updates."""
        return [update for update in self.group.updates if update.predictor_only and not update.late]

    @property
    def members(self) -> list[Received]:
        """All timely updates with a predictor that are not excluded, by device id."""
        return sorted((*self.view.updates, *self.alone), key=lambda update: update.device)

    @property
    def counts(self) -> bool:
        """Whether any whole model is in the average."""
        return any(self.weights)

    def keep_if_broken(self) -> None:
        """Revert to the published model if the next one is not finite; drop non-finite velocities too."""
        if all(map(_finite, self.state.values())):
            return
        self.state = {name: w.clone() for name, w in self.group.previous.items()}
        self.metrics["kept"] = 1.0
        kept = self.view.memory.tensors
        for name in [n for n, w in kept.items() if f"/{self.name}/" in n and not _finite(w)]:
            del kept[name]

    def reports(self, scores: Mapping[str, float], capped: Mapping[str, Capped]) -> dict[str, DeviceReport]:
        """The report on every update; `scores` and `capped` are by device."""
        total = sum(self.weights) or 1.0
        shares = {u.device: w / total for u, w in zip(self.view.updates, self.weights, strict=True)}
        shares |= self.alone_shares
        return {
            u.device: DeviceReport(
                weight=shares.get(u.device, 0.0),
                score=scores.get(u.device),
                screened=self.screened.get(u.device),
                capped=capped.get(u.device),
            )
            for u in self.group.updates
        }


def screen(recipe: Recipe, group: Group, server: Server, round_number: int, memory: Memory) -> Course:
    """Apply the recipe's screens in order; each sees the updates that the previous ones have kept."""
    view = View(
        spec=group.spec,
        round_number=round_number,
        previous=group.previous,
        updates=[update for update in group.updates if update.model and not update.predictor_only],
        memory=memory,
        options=recipe.options,
        server=server,
    )
    screened: dict[str, str] = {}
    for name in recipe.screen:
        if view.updates:
            reasons = find_part("screen", name)(view)
            _check_length(f"screen.{name}", reasons, view)
            screened |= {u.device: why for u, why in zip(view.updates, reasons, strict=True) if why is not None}
            view = replace(view, updates=[u for u in view.updates if u.device not in screened])
    late = [update for update in view.updates if update.late]
    view = replace(view, updates=[update for update in view.updates if not update.late])
    return Course(group=group, view=view, late=late, screened=screened)


def weigh(recipe: Recipe, view: View) -> Sequence[float]:
    """One weight per update; all 0 means that no device is trusted."""
    if not view.updates:
        return ()
    weights: Sequence[float] = find_part("weigh", recipe.weigh)(view)
    _check_length(f"weigh.{recipe.weigh}", weights, view)
    if not all(0 <= weight < float("inf") for weight in weights):  # NaN is refused too
        raise RoundError(f"{view.spec}: weigh.{recipe.weigh} gave {list(weights)[:5]}; weights are numbers >= 0")
    return weights


def _check_length(part: str, answer: Sequence[object], view: View) -> None:
    if len(answer) != len(view.updates):
        raise RoundError(f"{view.spec}: {part} gave {len(answer)} values for {len(view.updates)} updates")


def average(recipe: Recipe, course: Course) -> State:
    """Average the whole models, apply server momentum, then average in predictor-only updates."""
    view, weights = course.view, course.weights
    state: State = {name: w.clone() for name, w in view.previous.items()}
    if course.counts:
        state = find_part("average", recipe.average)(view, weights)
        if recipe.bn == "last":
            from aggregator.fusion.averages.batchnorm import statistics_of_last

            state = statistics_of_last(view, weights, state)
        if recipe.server_momentum:
            from aggregator.fusion.averages.server_momentum import server_momentum

            state = server_momentum(view, state, recipe.server_momentum)
    predictors = _predictors(recipe, course)
    return state if predictors is None else merge_state(state, predictors)


#: Averages that need whole models; predictor-only updates are then averaged by the mean.
_WHOLE = ("matched",)


def _predictors(recipe: Recipe, course: Course) -> State | None:
    """The average over all devices, by id; None without predictor-only updates. Whole models keep their weights, scaled
    to their examples."""
    alone = {update.device: update.num_examples * course.view.trust.get(update.device, 1.0) for update in course.alone}
    if not sum(alone.values()) > 0:
        return None
    view, weighed = course.view, list[tuple[Received, float]]()
    if course.counts:
        scale = sum(view.num_examples) / sum(course.weights)
        weighed += [(_predictor_of(u), w * scale) for u, w in zip(view.updates, course.weights, strict=True)]
    weighed += [(update, alone[update.device]) for update in course.alone]
    weighed.sort(key=lambda pair: pair[0].device)
    all_of_them = replace(
        view, previous=slice_state(view.previous, "predictor"), updates=[update for update, _ in weighed]
    )
    total = sum(weight for _, weight in weighed)
    course.alone_shares = {device: weight / total for device, weight in alone.items()}
    part = find_part("average", "mean" if recipe.average in _WHOLE else recipe.average)
    state: State = part(all_of_them, [weight for _, weight in weighed])
    return state


def _predictor_of(update: Received) -> Received:
    return replace(update, state=_sliced(update.state), predictor_only=True)


def _sliced(read: Callable[[], Mapping[str, Tensor]]) -> Callable[[], Mapping[str, Tensor]]:
    return lambda: slice_state(read(), "predictor")


def _finite(w: Tensor) -> bool:
    """Whether all of w is finite; a finite sum is a fast sufficient check."""
    return bool(w.sum().isfinite()) or bool(w.isfinite().all())
