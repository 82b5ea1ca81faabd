"""Results that nobody measured, and the plans of runs."""

from __future__ import annotations

from functools import partial
from typing import Any

from fleet.experiments.base import Measure, Results
from fleet.experiments.fedgen.plans import Plan
from fleet.experiments.registry import find_experiment


def plans(name: str, fidelity: str) -> dict[str, Plan]:
    def plan(measure: Measure) -> Any:
        assert isinstance(measure, partial)
        return measure.keywords["plan"]

    return {run: plan(measure) for run, measure in find_experiment(name).runs(fidelity).items()}


def made_up(name: str, fidelity: str) -> Results:
    """FedGen is at 90 to 92, all others are at 80 to 82."""
    return {
        run: {
            "round": [1, 2, 3],
            "slices": [base, base + 1.0, base + 2.0],
            "whole": [base, base, base],
            "ensemble": [85.0],
        }
        for run, plan in plans(name, fidelity).items()
        for base in [90.0 if plan.config.recipe == "fedgen" else 80.0]
    }
