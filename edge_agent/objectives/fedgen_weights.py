"""How strongly the aggregator's generator guides local training, as a value. Imports no torch.

The loss of FedGen (Zhu et al. 2021, arXiv:2105.10056) on a mini-batch of B samples, in round t = 0, 1, …:

    CE(real) + s a_t CE(predictor(G(eps, y~)), y~) + b_t KL(p_generated || p_real)

    paper, Eq. 5   a_t = 1, b_t = 0, s = 1
    reference      a_t = max(1e-4, 10 · 0.98^t), b_t likewise, s = B_G / B, and only in the first 20 steps of a round

y~ (B_G labels) are drawn from p(y), which the aggregator sends with the generator. p_generated is the model's own
output for latents generated for the labels of the real batch, and no gradient passes through it. The aggregator sends
these values in `Hyper.extra`, each with the prefix `generated_`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from core.errors import ConfigError

__all__ = ["PAPER", "REFERENCE", "Guidance"]

PREFIX = "generated_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidance:
    """The defaults are the paper's."""

    weight: float = 1.0  # a_0
    kl: float = 0.0  # b_0; the authors have 1 for EMNIST
    decay: float = 1.0  # of both, per round
    floor: float = 0.0  # lower bound of both, unless 0 from the start
    batch: int = 32  # B_G
    by_size: bool = False  # s = B_G / B, else 1
    steps: int = 0  # number of guided steps at the start of a round; 0: all

    def __post_init__(self) -> None:
        if min(self.weight, self.kl, self.floor) < 0 or self.batch < 1 or self.steps < 0:
            raise ConfigError(f"{self}: weights are not negative, the batch is at least 1")
        if not 0 < self.decay <= 1:
            raise ConfigError(f"{self}: the decay is above 0 and at most 1")

    def weights(self, number: int) -> tuple[float, float]:
        """(a_t, b_t) of round `number`, which is t + 1."""
        factor = self.decay ** (number - 1)
        a, b = (max(first * factor, self.floor) if first else 0.0 for first in (self.weight, self.kl))
        return a, b

    @classmethod
    def from_extra(cls, extra: Mapping[str, float]) -> Guidance:
        """The inverse of `to_extra`; missing values are the paper's."""
        given = {f.name: extra[PREFIX + f.name] for f in fields(cls) if PREFIX + f.name in extra}
        for name in ("batch", "steps", "by_size"):
            if name in given:
                if given[name] != int(given[name]):
                    raise ConfigError(f"{PREFIX}{name} is {given[name]:g}; give a whole number")
                given[name] = int(given[name])
        if "by_size" in given:
            given["by_size"] = bool(given["by_size"])
        return cls(**given)  # type: ignore[arg-type]

    def to_extra(self) -> dict[str, float]:
        """As numbers by name, for a job."""
        return {PREFIX + f.name: float(getattr(self, f.name)) for f in fields(self)}


PAPER = Guidance()
REFERENCE = Guidance(weight=10.0, kl=10.0, decay=0.98, floor=1e-4, by_size=True, steps=20)
