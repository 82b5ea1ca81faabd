"""FedDF against FedAvg: rounds that each needs to reach the final accuracy of FedAvg."""

from __future__ import annotations

from fleet.experiments.base import Cell
from fleet.experiments.feddf.runs import LAST, last, rounds_to

__all__ = ["rounds_to_average"]


def rounds_to_average(title: str, average: str, distilled: str, prototype: str) -> list[Cell]:
    """One cell for the run `average` and one for `distilled`, by trailing means of `LAST` rounds."""
    level = last(average, prototype)
    return [
        Cell(
            f"{title}: rounds of {name} to FedAvg's accuracy",
            rounds_to(run, prototype, level, over=LAST),
            unit="rounds",
            note="means of 3 rounds",
        )
        for name, run in (("FedAvg", average), ("FedDF", distilled))
    ]
