"""FedDF's experiments with numbers to follow by hand."""

from __future__ import annotations

from functools import partial

from fleet.experiments.base import Cell, Results
from fleet.experiments.registry import find_experiment
from fleet.simulation.config import SimulationConfig


def configs(name: str) -> dict[str, SimulationConfig]:
    """The fleets of an experiment, by run."""
    found = {}
    for run, measure in find_experiment(name).runs("paper").items():
        assert isinstance(measure, partial)
        found[run] = measure.keywords["config"]
    return found


def made_up(name: str) -> Results:
    """Facts of all runs: FedAvg gains 1 point a round from 50, FedDF 1 from 60, its ensemble is 1 above."""
    facts = {}
    for run, config in configs(name).items():
        start = 60.0 if config.recipe == "feddf" else 50.0
        curve = {p: [start + n for n in range(config.rounds)] for p in config.prototypes}
        above = {p: [value + 1 for value in values] for p, values in curve.items()}
        facts[run] = {"accuracy": curve, "average": curve, "ensemble": above, "screened": [0] * config.rounds}
    return facts


def cells_of(name: str) -> dict[str, Cell]:
    """The cells of an experiment, by name."""
    return {cell.name: cell for cell in find_experiment(name).cells("paper")}
