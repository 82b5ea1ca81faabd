"""FedDistill on the device: it uploads its mean logits of each label, and learns from those of the fleet.

    loss = CE(logits, y) + gamma KL(softmax(T_y) || softmax(logits)),   T = the fleet's mean logits (C, C), row y

The baseline of FedGen's paper, after Jeong et al. 2018 (arXiv:1811.11479); FedDistill+ shares the model too. A device
sums its training logits per label, over all rounds; the authors start their counts at 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.compute_device import CPU, widened

__all__ = ["DistilledObjective", "LabelLogits"]

SUMS, COUNTS = "label-logits.sums", "label-logits.counts"


@dataclass(slots=True)
class LabelLogits:
    """Sums of a device's own logits, by label, on its compute device while it trains."""

    sums: Tensor  # (C, C): row y sums the logits of samples of label y
    counts: Tensor  # (C,)

    @classmethod
    def fresh(cls, classes: int) -> LabelLogits:
        """Nothing seen yet."""
        return cls(torch.zeros(classes, classes), torch.zeros(classes))

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor], classes: int) -> LabelLogits:
        """The inverse of `state`; empty if the number of classes differs."""
        sums, counts = state.get(SUMS), state.get(COUNTS)
        if sums is None or counts is None or sums.shape != (classes, classes) or counts.shape != (classes,):
            return cls.fresh(classes)
        return cls(sums.clone(), counts.clone())

    def to(self, device: torch.device) -> None:
        """Count on `device` from now on."""
        self.sums, self.counts = self.sums.to(device), self.counts.to(device)

    def state(self) -> dict[str, Tensor]:
        """The tensors to store on the device."""
        return {SUMS: self.sums.cpu(), COUNTS: self.counts.cpu()}

    def add(self, logits: Tensor, y: Tensor) -> None:
        """Count a batch."""
        self.sums.index_add_(0, y, logits.detach())
        self.counts += torch.bincount(y, minlength=len(self.counts))

    def means(self, *, prior: float = 1.0) -> Tensor:
        """(C, C), on the CPU; rows of labels that were never seen are 0."""
        return self.sums.cpu() / (self.counts.cpu() + prior).clamp(min=1.0)[:, None]


class DistilledObjective:
    """The loss above, which also counts logits; without `teacher` (the first round) it is the cross-entropy."""

    def __init__(
        self, seen: LabelLogits, teacher: Tensor | None = None, *, weight: float = 1.0, device: torch.device = CPU
    ) -> None:
        self.seen, self._weight = seen, weight
        self.seen.to(device)
        self._log_targets = None if teacher is None else teacher.log_softmax(1).to(device)

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        """The loss of one batch."""
        logits = widened(model(x))
        self.seen.add(logits, y)
        loss = F.cross_entropy(logits, y)
        if self._log_targets is None:
            return loss
        told = F.kl_div(logits.log_softmax(1), self._log_targets[y], reduction="batchmean", log_target=True)
        return loss + self._weight * told
