"""Shared by FedGen's tables: runs a simulated fleet and records its scores."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from fleet.experiments.base import Fact, Facts, Setting
from fleet.experiments.fedgen.plans import Plan

if TYPE_CHECKING:
    from fleet.data import Dataset
    from fleet.simulation.config import SimulationConfig
    from fleet.simulation.received import Sent
    from fleet.simulation.simulation import Simulation

__all__ = ["best_five", "follow", "honest", "last_ten", "reference"]

#: Last rounds that are all scored, also on the whole test set; last rounds in which the users' ensemble is scored.
LAST, TOGETHER = 10, 5


def follow(setting: Setting, *, plan: Plan, ensemble: bool = False) -> Facts:
    """Run the fleet of `plan`; scores by round, in percent (`scores.py`), and CPU seconds."""
    import torch

    from fleet.data import load
    from fleet.experiments.fedgen.authors import hooks_of, open_fleet
    from fleet.experiments.fedgen.scores import ensemble_score, own_score, slice_score, slices_of, whole_score

    torch.set_num_threads(1)
    start = time.process_time()
    data = load(plan.config.dataset)
    config = _with_proxy(replace(plan.config, seed=setting.seed), data, setting)
    plan = replace(plan, config=config)
    scores: dict[str, list[float]] = {"round": [], "slices": [], "whole": [], "ensemble": []}

    def together(fleet: Simulation, round_number: int, sent: Sequence[Sent]) -> None:
        if ensemble and config.rounds - round_number < TOGETHER:
            scores["ensemble"].append(round(ensemble_score(fleet, sent, slices), 3))

    hooks = replace(hooks_of(plan), received=together)
    with open_fleet(plan, data, hooks) as fleet:
        slices = slices_of(fleet)
        for round_number in range(1, config.rounds + 1):
            fleet.run_round(round_number)
            left = config.rounds - round_number
            if round_number % plan.every and left >= LAST:
                continue
            scores["round"].append(round_number)
            scores["slices"].append(round(slice_score(fleet, slices), 3))
            setting.say(f"round {round_number}/{config.rounds}, {scores['slices'][-1]:.2f} % of slices")
            if left < LAST:
                whole = own_score(fleet) if config.keeps_models else whole_score(fleet)
                scores["whole"].append(round(whole, 3))
        examples = [len(device.rows) for device in fleet.devices]
    return {**scores, "cpu_seconds": round(time.process_time() - start, 1), "examples": examples}


def _with_proxy(config: SimulationConfig, dataset: Dataset, setting: Setting) -> SimulationConfig:
    """For recipes that need unlabeled images: the images that no user has."""
    import numpy as np

    from aggregator.recipes.catalogue import find_recipe
    from fleet.experiments.feddf.runs import with_source
    from fleet.experiments.fedgen.authors import authors_partition

    if not find_recipe(config.recipe, config.fusion).needs_source:
        return config
    taken = np.concatenate(authors_partition(config, dataset))
    left = np.setdiff1d(np.arange(len(dataset.y_train)), taken)
    return with_source(config, dataset.inputs(dataset.x_train[left]), setting)


def reference(run: str, key: str = "slices") -> Fact:
    """The score of the authors' tables: mean of the five best scored rounds."""
    return Fact((run,), lambda results: best_five(results[run][key]), run)


def honest(run: str) -> Fact:
    """Our score: mean of the last ten rounds, on the whole test set."""
    return Fact((run,), lambda results: last_ten(results[run]["whole"]), run)


def best_five(scores: Sequence[float]) -> float:
    """Mean of the five best.

    >>> best_five([1, 9, 2, 8, 7, 6, 5])
    7.0
    """
    return fmean(sorted(scores)[-5:])


def last_ten(scores: Sequence[float]) -> float:
    """Mean of the last ten.

    >>> last_ten([99, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    5.5
    """
    return fmean(scores[-10:])
