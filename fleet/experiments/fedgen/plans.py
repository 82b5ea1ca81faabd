"""The fleets of FedGen's tables (Zhu et al. 2021) as configurations of the simulated fleet. Imports no torch.

Behaviour of the authors' code without an option is in `authors.py`, as hooks; a `Plan` selects them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edge_agent.training.params import LocalTraining
from fleet.experiments.base import UNCAPPED
from fleet.simulation.config import SimulationConfig

__all__ = ["PROTOTYPE", "RECIPES", "Plan", "plan_of"]

PROTOTYPE = "cnn:fp32"
USERS, STEPS, BATCH, LR = 20, 20, 32, 0.01
#: By the name on pages.
RECIPES: Mapping[str, str] = {
    "FedAvg": "fedavg",
    "FedProx": "fedprox",
    "FedDistill": "feddistill",
    "FedDistill+": "feddistill+",
    "FedDF": "feddf",
    "FedGen": "fedgen",
}
#: mu and L2 decay of FedProx: in the authors' code, and in the paper.
_PULL: Mapping[str, tuple[float, float]] = {"reference": (1.0, 0.001), "paper": (0.01, 0.0)}
#: FedDF's distillation is short, ten batches a round, because students start from this round's average.
_FEDDF = {"steps": 10, "batch_size": 64, "check_every": 10, "schedule": "constant"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One fleet on MNIST, and its hooks."""

    config: SimulationConfig
    authors: bool  # BatchNorm statistics stay on users, learning rates by user, uniform labels of generated latents
    round_counts: bool  # label counts are those of the mini-batches drawn in the round, else of all samples
    every: int = 10  # rounds between scores; the last `LAST` rounds are all scored (runs.py)


def plan_of(
    recipe: str,
    alpha: float,
    fidelity: str,
    *,
    update: str = "state",
    active: int = USERS // 2,
    rounds: int = 200,
    every: int = 10,
    round_counts: bool | None = None,
    fusion: Mapping[str, Any] | None = None,
    count_epsilon: float | None = None,
    count_bins: int | None = None,
) -> Plan:
    """The plan of `recipe` in a table: as printed (`paper`), or as in the authors' code (`reference`).

    `active` users train in a round; `fusion` are further overrides of the recipe.
    """
    reference = fidelity == "reference"
    config = SimulationConfig(
        dataset="mnist",
        devices=USERS,
        prototypes=(PROTOTYPE,),
        training=_training(recipe, fidelity),
        partition="fedgen",
        alpha=alpha,
        rounds=rounds,
        fraction=active / USERS,
        recipe=recipe,
        fusion={**UNCAPPED, **_fusion(recipe, fidelity), **(fusion or {})},
        validation_size=0,
        update=update,
        count_epsilon=count_epsilon,
        count_bins=count_bins,
        score_devices="never",  # `scores.py` computes the authors' scores
        score_every=rounds,
        score_ensemble=False,
    )
    return Plan(
        config=config,
        authors=reference,
        round_counts=reference if round_counts is None else round_counts,
        every=every,
    )


def _training(recipe: str, fidelity: str) -> LocalTraining:
    mu, decay = _PULL[fidelity] if recipe == "fedprox" else (0.0, 0.0)
    return LocalTraining(lr=LR, batch_size=BATCH, steps=STEPS, prox=mu, weight_decay=decay)


def _fusion(recipe: str, fidelity: str) -> dict[str, Any]:
    if recipe == "fedgen":
        return {"generator": fidelity}
    if recipe == "feddf":
        return dict(_FEDDF)
    if recipe.startswith("feddistill"):
        seen = {"label_logits": "all"} if fidelity == "reference" else {}
        return {"label_logits_weight": 1.0, **seen}  # the authors' weight
    return {}
