"""Devices that look adversarial, by the role of their updates in fusion. Imports no torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from aggregator.fusion.example_cap import capped_text

if TYPE_CHECKING:
    from fleet.results.run_file import RoundResult

__all__ = ["Suspect", "excluded_in_all", "suspects"]

BELOW = 0.5  # of the median score of its prototype: 1-bit models score lower than others without being worse
ABSURD = 100  # times the counted examples: a device may well have more examples than others, but not this many
FEW = 3  # scores of fewer devices are not significant


@dataclass(frozen=True, slots=True)
class Suspect:
    """A device, its score if it has one, and the reason for suspicion."""

    device: str
    score: float | None
    why: str


def suspects(devices: Mapping[str, Mapping[str, Any]], prototypes: Mapping[str, str] | None = None) -> list[Suspect]:
    """The suspicious devices among a round's `devices` (`RoundResult.devices`), the worst first.

    A device is suspicious if it was excluded, if its update got no weight while others did, if it claimed a hundred
    times its counted examples, or if its score is below half of its prototype's median; `prototypes` maps devices to
    prototypes, without it all devices are compared with each other.
    """
    of = prototypes or {}
    scores: dict[str, list[float]] = {}
    for name, report in devices.items():
        if report.get("score") is not None:
            scores.setdefault(of.get(name, ""), []).append(report["score"])
    usual = {group: median(values) for group, values in scores.items() if len(values) >= FEW}
    averaged = {of.get(name, "") for name, report in devices.items() if report.get("weight")}
    listed = []
    for name, report in devices.items():
        score, weight = report.get("score"), report.get("weight")
        least = BELOW * usual.get(of.get(name, ""), 0.0)
        if report.get("screened") is not None:
            listed.append(Suspect(name, score, f"excluded: {report['screened']}"))
        elif weight == 0 and of.get(name, "") in averaged:
            listed.append(Suspect(name, score, "no weight"))
        elif (capped := report.get("capped")) is not None and capped["claimed"] >= ABSURD * capped["counted"]:
            listed.append(Suspect(name, score, f"capped: {capped_text(capped)}"))
        elif score is not None and score < least:
            listed.append(Suspect(name, score, "low score"))
    return sorted(listed, key=lambda s: (s.why == "low score", s.score is None, s.score or 0.0, s.device))


def excluded_in_all(rounds: Sequence[RoundResult], most: int = 8) -> str:
    """Devices that fusion has excluded, the most often excluded first, each with its last reason; empty if none was."""
    times: Counter[str] = Counter()
    reasons: dict[str, str] = {}
    for result in rounds:
        for device, report in sorted(result.devices.items()):
            if report.get("screened") is not None:
                times[device] += 1
                reasons[device] = report["screened"]
    named = [f"{device} in {n} of {len(rounds)} rounds ({reasons[device]})" for device, n in times.most_common(most)]
    more = [f"and {len(times) - most} more, in run.json and the report"] if len(times) > most else []
    return ", ".join([*named, *more])
