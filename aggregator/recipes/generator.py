"""Parameters of training the latent generator on the aggregator. Imports no torch: used by recipes and the config.

Two forms of FedGen (Zhu et al. 2021, arXiv:2105.10056) differ in more than one place; `PAPER` follows the printed
formulas, `REFERENCE` the authors' code:

                 PAPER                                        REFERENCE
    loss         mean-logits: CE of the averaged logits       per-teacher: CE of each, weighted by label counts
    noise        paper: N(0, I)                               reference: U[0, 1)
    labels       counts: by frequency on the devices          uniform: over labels that any device has
    weight decay none                                         1e-2, coupled (L2), in Adam
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal, get_args

from core.errors import ConfigError, did_you_mean
from core.limits import BATCH, LR, STEPS, WEIGHT, WIDTH
from core.settings import Settings, within

__all__ = ["FORMS", "GUIDANCE", "PAPER", "REFERENCE", "Generation"]

Loss = Literal["mean-logits", "per-teacher"]
Noise = Literal["paper", "reference"]
Labels = Literal["counts", "uniform"]
Width = Annotated[int, within(1, WIDTH.most)]
Weight = Annotated[float, within(0, WEIGHT.most)]


class Generation(Settings, frozen=True, kw_only=True):
    """One generator for all prototypes, trained for `steps` in every round; moments of Adam live on between rounds."""

    loss: Loss = "mean-logits"
    noise: Noise = "paper"
    labels: Labels = "counts"
    noise_width: Width = 32  # d_epsilon of the paper's Table 2
    hidden: Width = 256  # d_h
    batch_size: Annotated[int, within(2, BATCH.most)] = 32
    steps: Annotated[int, within(1, STEPS.most)] = 50
    lr: Annotated[float, within(0, LR.most)] = 3e-4  # the authors' EMNIST runs have 1e-4
    lr_decay: Annotated[float, within(0, 1)] = 0.98  # per round
    weight_decay: Weight = 0.0
    diversity: Weight = 1.0  # weight of the diversity loss
    prior: Weight = 1.0  # added to every label count, as in the authors' code; a label that no device has is not drawn

    def __post_init__(self) -> None:
        for what, value, known in (
            ("loss", self.loss, get_args(Loss)),
            ("noise", self.noise, get_args(Noise)),
            ("labels", self.labels, get_args(Labels)),
        ):
            if value not in known:
                raise ConfigError(
                    f"generation: unknown {what} {value!r}{did_you_mean(value, known)}; known: {' '.join(known)}"
                )
        if min(self.noise_width, self.hidden, self.steps) < 1 or self.batch_size < 2:
            raise ConfigError("generation: noise_width, hidden and steps are at least 1, batch_size at least 2")
        if not (math.isfinite(self.lr) and self.lr > 0 and 0 < self.lr_decay <= 1):
            raise ConfigError(f"generation: lr {self.lr} must be positive, lr_decay {self.lr_decay} in (0, 1]")
        if min(self.weight_decay, self.diversity, self.prior) < 0:
            raise ConfigError("generation: weight_decay, diversity and prior cannot be negative")

    def lr_at(self, number: int) -> float:
        """The learning rate of round `number`, counted from 1."""
        return self.lr * self.lr_decay ** (number - 1)


PAPER = Generation()
REFERENCE = Generation(loss="per-teacher", noise="reference", labels="uniform", weight_decay=1e-2)
#: By the name used in experiments.
FORMS: Mapping[str, Generation] = MappingProxyType({"paper": PAPER, "reference": REFERENCE})

#: Values sent to devices for each form; missing ones are the paper's (edge_agent/objectives/fedgen_weights.py).
GUIDANCE: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "paper": {},
        "reference": {
            "generated_weight": 10.0,
            "generated_kl": 10.0,  # the authors have 1 for EMNIST
            "generated_decay": 0.98,
            "generated_floor": 1e-4,
            "generated_batch": 32.0,
            "generated_by_size": 1.0,
            "generated_steps": 20.0,
        },
    }
)
