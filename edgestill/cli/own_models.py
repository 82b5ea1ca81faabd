"""Prints the accuracies of the devices' own models: each on its own slice, and on the whole test set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgestill.cli.output import out, print_table

if TYPE_CHECKING:
    from fleet.results.run_file import RoundResult

__all__ = ["print_own_models"]

SLICES = (("own_accuracy", "its own slice"), ("whole_accuracy", "the whole test set"))


def print_own_models(last: RoundResult, fleet: Sequence[Mapping[str, Any]], *, personal: bool = False) -> None:
    """Mean, worst and best over honest devices; attackers in a separate line. Nothing if none was scored.

    `personal` says that the scored models are the devices' personal ones.
    """
    from fleet.simulation.own_slice import extremes

    attackers = {d["device"] for d in fleet if "attack" in d}
    honest = {name: facts for name, facts in last.devices.items() if name not in attackers}
    others = {name: facts for name, facts in last.devices.items() if name in attackers}
    rows = []
    for key, words in SLICES:
        spread = extremes(honest, key)
        if spread is not None:
            worst = f"{100 * spread.worst:.1f} % ({spread.worst_device})"
            best = f"{100 * spread.best:.1f} % ({spread.best_device})"
            rows.append([words, f"{100 * spread.mean:.1f} %", worst, best])
    if rows:
        model = "personal model" if personal else "own model"
        print_table(f"\neach device's {model} after its training", ["on", "mean", "worst", "best"], rows)
    means = [(words, spread.mean) for key, words in SLICES if (spread := extremes(others, key)) is not None]
    if means:
        text = ", ".join(f"{100 * mean:.1f} % on {words}" for words, mean in means)
        out.print(f"attackers' own models, mean: {text}", soft_wrap=True)
