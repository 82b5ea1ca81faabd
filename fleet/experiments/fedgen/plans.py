"""How the fleets of FedGen's tables train and share (Zhu et al. 2021), as values. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["RECIPES", "Plan", "plan_of"]

MODEL, PREDICTOR, NOTHING = "model", "predictor", "nothing"
#: By the name on pages: recipe, and what devices share.
RECIPES: Mapping[str, str] = {
    "FedAvg": "fedavg",
    "FedProx": "fedprox",
    "FedDistill": "feddistill",
    "FedDistill+": "feddistill+",
    "FedDF": "feddf",
    "FedGen": "fedgen",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One fleet on MNIST; symbols as in the paper's section 5."""

    recipe: str
    alpha: float
    share: str = MODEL  # or predictor: extractors stay; nothing: devices learn alone
    devices: int = 20
    active: int = 10  # that a round selects
    rounds: int = 200
    steps: int = 20  # T, of a round
    batch: int = 32  # B
    lr: float = 0.01
    lr_decay: float = 1.0  # of the local learning rate, per round
    local_norms: bool = False  # BatchNorm's running statistics stay on the device
    round_counts: bool = False  # label counts are those of the batches drawn in the round, else of all samples
    count_epsilon: float | None = None  # label counts leave the device with noise
    count_bins: int | None = None
    pull: tuple[float, float] = (0.0, 0.0)  # FedProx: mu, and L2 decay
    proxy: int = 0  # unlabeled images at the aggregator, of those that no device has
    fusion: Mapping[str, Any] = field(default_factory=dict)  # fields of the recipe, overridden
    every: int = 10  # rounds between scores; the last `LAST` rounds are all scored


#: FedDF's distillation is short: ten batches a round, as the students start from this round's average.
_FEDDF = {"steps": 10, "batch_size": 64, "check_every": 10, "schedule": "constant"}


def plan_of(recipe: str, alpha: float, fidelity: str, share: str = MODEL, **changes: Any) -> Plan:
    """What `recipe` does in a table: as printed (`paper`), or as the authors' code has it (`reference`)."""
    reference = fidelity == "reference"
    fusion: dict[str, Any] = {}
    if recipe == "fedgen":
        fusion = {"generator": fidelity}
    elif recipe == "feddf":
        fusion = dict(_FEDDF)
    elif recipe.startswith("feddistill") and reference:
        fusion = {"label_logits": "all"}
    plan = Plan(
        recipe=recipe,
        alpha=alpha,
        share=NOTHING if recipe == "feddistill" else share,
        lr_decay=0.99 if reference else 1.0,
        local_norms=reference,
        round_counts=reference,
        pull=((1.0, 0.001) if reference else (0.01, 0.0)) if recipe == "fedprox" else (0.0, 0.0),
        proxy=45_000 if recipe == "feddf" else 0,
        fusion=fusion,
    )
    more = {**plan.fusion, **changes.pop("fusion", {})}
    return replace(plan, fusion=more, **changes)
