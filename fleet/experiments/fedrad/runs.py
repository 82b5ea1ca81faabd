"""FedRAD's fleet (Sturluson et al. 2021) as a configuration of the simulated one, and its rounds.

30 devices with MNIST, all of which take part in every round; some are faulty or malicious (`--attack`). The server's
set is `--source auto`, each training image with probability 1/6. If the plan holds it out for every recipe, recipes
that do not use it have exactly the same devices as those that distill.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch

from aggregator.recipes.catalogue import find_recipe
from fleet.data import Dataset
from fleet.experiments.fedrad.authors import count_with_dropout, dropout_teacher, softmax_first
from fleet.experiments.fedrad.plans import Plan
from fleet.results.run_file import RoundResult
from fleet.simulation.config import SimulationConfig
from fleet.simulation.hooks import Hooks
from fleet.simulation.inputs.server_side import server_side
from fleet.simulation.simulation import Simulation

__all__ = ["PROTOTYPE", "RoundFacts", "config_of", "hooks_of", "make_fleet", "rounds"]

DEVICES = 30
LATENT = 256  # width of the second hidden layer: no adapter between extractor and predictor
PROTOTYPE = "fedrad_mlp:fp32"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFacts:
    """One round."""

    error: float | None  # test error of the fused model, in percent; None: the round was not scored
    harm: float  # the attackers' share of the average
    lost: int  # devices without an update, for example if training diverged
    seconds: Mapping[str, float]  # by stage


def config_of(
    recipe: str, alpha: float | None, attack: str, plan: Plan, *, dataset: str, seed: int
) -> SimulationConfig:
    """The configuration of one cell: `alpha` of the Dirichlet draw, None for IID; `attack` as for `--attack`."""
    distills = find_recipe(recipe).needs_source
    split = {"partition": "fedrad-iid"} if alpha is None else {"partition": "fedrad", "alpha": alpha}
    return SimulationConfig(
        dataset=dataset,
        devices=DEVICES,
        prototypes=(PROTOTYPE,),
        latent=LATENT,
        training=plan.training,
        **split,
        rounds=plan.rounds,
        recipe=recipe,
        fusion=plan.overrides(recipe, distills=distills),
        validation_size=plan.validation if distills else 0,
        attack=attack,
        score_devices="never",
        score_ensemble=False,
        score_every=plan.score_every,
        seed=seed,
    )


def hooks_of(plan: Plan, *, seed: int) -> Hooks:
    """Hooks for a first round of another length and, in fidelity `reference`, for the authors' behaviour."""
    if not plan.authors:
        return Hooks(training=plan.of_round)
    return Hooks(
        training=plan.of_round,
        loss=softmax_first,
        teacher=partial(dropout_teacher, seed=seed),
        count=partial(count_with_dropout, seed=seed),
    )


def make_fleet(config: SimulationConfig, dataset: Dataset, plan: Plan) -> Simulation:
    """The simulation of a cell."""
    if plan.withhold and not find_recipe(config.recipe).needs_source:
        dataset = _without_server_set(config, dataset, plan)
    return Simulation(config, dataset, hooks=hooks_of(plan, seed=config.seed))


def _without_server_set(config: SimulationConfig, dataset: Dataset, plan: Plan) -> Dataset:
    """The dataset that a recipe that distills leaves to the devices."""
    recipe = find_recipe("fedrad", plan.overrides("fedrad", distills=True))
    config = replace(config, recipe=recipe.name, fusion={}, validation_size=plan.validation)
    nothing = torch.empty(0), torch.empty(0)
    _, left = server_side(config, recipe, dataset, nothing)
    return left


def rounds(fleet: Simulation) -> Iterator[RoundFacts]:
    """Train, fuse and score, round by round."""
    attackers = [device.id for device in fleet.devices if device.attack is not None]
    for round_number in range(1, fleet.config.rounds + 1):
        yield _facts(fleet.run_round(round_number), attackers, scored=fleet.config.scores(round_number))


def _facts(result: RoundResult, attackers: list[str], *, scored: bool) -> RoundFacts:
    return RoundFacts(
        error=100 * (1 - result.prototypes[PROTOTYPE].accuracy) if scored else None,
        harm=sum(result.devices[device]["weight"] for device in attackers if device in result.devices),
        lost=len(result.lost),
        seconds=result.seconds_by,
    )
