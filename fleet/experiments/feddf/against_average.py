"""FedDF against FedAvg: how many rounds each takes to the accuracy that FedAvg ends with."""

from __future__ import annotations

from fleet.experiments.base import Cell
from fleet.experiments.feddf.runs import LAST, last, rounds_to

__all__ = ["rounds_to_average"]


def rounds_to_average(title: str, average: str, distilled: str, prototype: str) -> list[Cell]:
    """A cell for the run `average` and one for `distilled`, by means of `LAST` rounds."""
    level = last(average, prototype)
    return [
        Cell(
            f"{title}: rounds of {who} to FedAvg's accuracy",
            rounds_to(run, prototype, level, over=LAST),
            unit="rounds",
            note="means of 3 rounds",
        )
        for who, run in (("FedAvg", average), ("FedDF", distilled))
    ]
