"""Figures of a report: accuracies, rounds and bytes to a target, time by stage, adversarial devices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median_high
from typing import Any

from fleet.report.facts import RunFacts
from fleet.results.lost import near_guessing
from fleet.results.run_file import RoundResult

__all__ = [
    "OWN_MODELS",
    "Reached",
    "attackers_share",
    "default_target",
    "ensemble",
    "mean_quality",
    "prototype_rows",
    "reached",
    "run_row",
    "time_split",
]

#: Stages of `seconds_by` as a report groups them.
STAGES: Mapping[str, tuple[str, ...]] = {
    "train": ("train",),
    "encode": ("encode",),
    "average": ("screen", "weigh", "average"),
    "teach": ("teach",),
    "distill": ("distill",),
    "generate": ("generate",),
    "score": ("score",),
}
REST = "rest"
#: Keys of the accuracies of the devices' own models (fleet/simulation/own_slice.py).
OWN_MODELS = ("own_accuracy", "own_worst", "own_best", "whole_accuracy", "whole_worst", "whole_best")


def mean_quality(result: RoundResult) -> float:
    """Mean accuracy over the prototypes of a round."""
    return fmean(p.quality for p in result.prototypes.values())


def ensemble(result: RoundResult) -> float | None:
    """Accuracy of the ensemble of all teachers, if it was scored."""
    return next((p.ensemble_accuracy for p in result.prototypes.values() if p.ensemble_accuracy is not None), None)


@dataclass(frozen=True, slots=True)
class Reached:
    """The first round in which a prototype met the target, and the bytes until then."""

    round: int
    bytes: int  # up and down, of the prototype's devices


def reached(run: RunFacts, prototype: str, target: float) -> Reached | None:
    """When the prototype first met the target; None: never."""
    spent = 0
    for round_number, result in run.results(prototype):
        spent += result.bytes_up + result.bytes_down
        if result.quality >= target:
            return Reached(round_number, spent)
    return None


def default_target(runs: Sequence[RunFacts]) -> float:
    """The largest multiple of 5 % that at least half of all prototypes of all runs reach.

    Best accuracies 0.93, 0.88 and 0.41 give 0.85. It is never one that guessing reaches, or nearly
    (`fleet/results/lost.py`): of ten classes alike, it is 0.2 at least.
    """
    best = [max(p.quality for _, p in run.scored(name)) for run in runs for name in run.prototypes]
    least = max(near_guessing([device.labels for device in run.fleet]) for run in runs)
    return max(math.floor(20 * median_high(best) + 1e-9) / 20, _rounded_up(min(least, 0.99)), 1 / 20)


def _rounded_up(accuracy: float) -> float:
    """To a multiple of 5 %, unless that is all there is.

    >>> _rounded_up(0.2), _rounded_up(0.21), _rounded_up(0.98)
    (0.2, 0.25, 0.98)
    """
    steps = math.ceil(20 * accuracy - 1e-9)
    return accuracy if steps >= 20 else steps / 20


def time_split(rounds: Sequence[RoundResult]) -> dict[str, float]:
    """Seconds by group of stages, over all rounds; `rest` is the remaining time of the rounds.

    Stages that run in parallel on several workers may add up to more than the rounds' time; the rest is then 0.
    """
    by_stage: dict[str, float] = {}
    for result in rounds:
        for stage, seconds in result.seconds_by.items():
            by_stage[stage] = by_stage.get(stage, 0.0) + seconds
    split = {group: sum(by_stage.get(stage, 0.0) for stage in stages) for group, stages in STAGES.items()}
    rest = sum(r.seconds for r in rounds) - sum(by_stage.values())
    known = {stage for stages in STAGES.values() for stage in stages}
    unknown = sum(seconds for stage, seconds in by_stage.items() if stage not in known)
    return {group: seconds for group, seconds in split.items() if seconds} | {REST: max(rest, 0.0) + unknown}


def attackers_share(run: RunFacts) -> float | None:
    """The attackers' share of the averages of the last round; None without attackers."""
    if not run.attackers:
        return None
    weights = [run.judged[-1][name].weight or 0.0 for name in run.attackers if name in run.judged[-1]]
    return sum(weights) / len(run.last.prototypes)


def prototype_rows(run: RunFacts, target: float) -> list[dict[str, Any]]:
    """One row per prototype: accuracies, update size, rounds and bytes to target."""
    rows = []
    for name in run.prototypes:
        results, scored = run.results(name), run.scored(name)
        last, first = scored[-1][1], reached(run, name, target)
        answers = sum(p.devices for _, p in results)
        rows.append(
            {
                "prototype": name,
                "devices": last.devices,
                "accuracy": last.accuracy,
                "accuracy_float": last.accuracy_float,
                "average_accuracy": last.average_accuracy,
                "device_accuracy": last.device_accuracy,
                **{key: getattr(last, key) for key in OWN_MODELS},
                "best": max(p.quality for _, p in scored),
                "update_bytes": round(sum(p.bytes_up for _, p in results) / answers) if answers else None,
                "rounds_to_target": None if first is None else first.round,
                "bytes_to_target": None if first is None else first.bytes,
            }
        )
    return rows


def run_row(run: RunFacts, target: float) -> dict[str, Any]:
    """The figures of one run, as printed by `edgestill report --json`."""
    return {
        "run": run.name,
        "rounds": len(run.rounds),
        "accuracy": mean_quality(run.last),
        "best": max(map(mean_quality, run.scored_rounds)),
        "ensemble_accuracy": ensemble(run.last),
        "bytes_up": sum(r.bytes_up for r in run.rounds),
        "bytes_down": sum(r.bytes_down for r in run.rounds),
        "seconds": round(sum(r.seconds for r in run.rounds), 3),
        "seconds_by": {stage: round(seconds, 3) for stage, seconds in time_split(run.rounds).items()},
        "lost": sum(len(r.lost) for r in run.rounds),
        "attackers": len(run.attackers),
        "attackers_share": attackers_share(run),
        "prototypes": prototype_rows(run, target),
    }
