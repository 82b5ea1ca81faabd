"""Prints the summary of a simulated run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from edgestill.cli.output import out, print_table
from edgestill.cli.own_models import print_own_models

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.results.run_file import RoundResult, Run

__all__ = ["print_summary"]

#: Names of the aggregator's stages in the summary.
_COSTS = {"teach": "teachers' forward passes", "distill": "distillation", "generate": "generator", "score": "scoring"}


def print_summary(run: Run) -> None:
    """One line per prototype with accuracies and update size, then attackers, losses, traffic and time."""
    from fleet.report.summary import time_split
    from fleet.results.lost import lost_in_all
    from fleet.results.run_file import has_personal_models
    from fleet.results.suspects import excluded_in_all

    scored = [r for r in run.rounds if all(math.isfinite(p.accuracy) for p in r.prototypes.values())]
    if scored:
        _print_scores(scored[-1], {n: max(r.prototypes[n].quality for r in scored) for n in scored[-1].prototypes})
    else:
        out.print("no round was scored yet")
    last = run.rounds[-1]
    print_own_models(last, run.fleet, personal=has_personal_models(run.config))
    attackers = [d["device"] for d in run.fleet if "attack" in d]
    if attackers:
        share = sum(last.devices.get(name, {}).get("weight", 0.0) for name in attackers) / len(last.prototypes)
        out.print(f"\n{len(attackers)} devices are adversarial; their share of the averages: {100 * share:.1f} %")
    if last.side_artifact_bytes:
        out.print(f"\nside artifact (generator or label logits): {last.side_artifact_bytes / 1000:.1f} kB")
    if missed := lost_in_all(run.rounds):
        out.print(f"\n{missed}", soft_wrap=True)
    if excluded := excluded_in_all(run.rounds):
        out.print(f"\nexcluded: {excluded}", markup=False, soft_wrap=True)
    for text in (text for r in run.rounds for text in r.warnings):
        out.print(f"\nwarning: {text}", markup=False, soft_wrap=True)
    up, down = (sum(getattr(r, k) for r in run.rounds) / 1e6 for k in ("bytes_up", "bytes_down"))
    seconds = sum(r.seconds for r in run.rounds)
    out.print(f"\n{up:.2f} MB up, {down:.2f} MB down, {len(run.rounds)} rounds in {seconds:.1f} s")
    split = time_split(run.rounds)
    spent = [f"{words} {split[stage]:.1f} s" for stage, words in _COSTS.items() if split.get(stage, 0.0) >= 0.05]
    trained = [f"training, summed over all devices {split['train']:.1f} s"] if split.get("train") else []
    if spent:
        out.print(f"of this, {', '.join([*trained, *spent])}", soft_wrap=True)


def _print_scores(last: RoundResult, best: Mapping[str, float]) -> None:
    rows = []
    for name, result in last.prototypes.items():
        full = "" if result.accuracy_float is None else f"{100 * result.accuracy_float:.1f} %"
        size = f"{result.bytes_up / result.devices / 1000:.1f} kB" if result.devices else ""
        shared = "" if result.device_accuracy is None else f"{100 * result.accuracy:.1f} %"
        before = "" if result.average_accuracy is None else f"{100 * result.average_accuracy:.1f} %"
        rows.append([name, result.devices, f"{100 * result.quality:.1f} %", full, before, shared])
        rows[-1] += [f"{100 * best[name]:.1f} %", size]
    columns = [
        "prototype",
        "devices",
        "accuracy",
        "float weights",
        "its average",
        "shared model",
        "best",
        "one update",
    ]
    for n in (5, 4, 3):  # no local models, no distillation, no quantized prototype
        if not any(row[n] for row in rows):
            columns, rows = columns[:n] + columns[n + 1 :], [row[:n] + row[n + 1 :] for row in rows]
    print_table(f"after round {last.round}, on the test set", columns, rows)
    if any(p.device_accuracy is not None for p in last.prototypes.values()):
        out.print("\naccuracy is the mean of the devices' own models, which stay on the devices")
    elif any(p.accuracy_float is not None for p in last.prototypes.values()):
        out.print("\naccuracy is that of the model as boards run it, at its own precision")
    together = next((p.ensemble_accuracy for p in last.prototypes.values() if p.ensemble_accuracy is not None), None)
    if together is not None:
        out.print(f"\nensemble of all teachers: {100 * together:.1f} %")
