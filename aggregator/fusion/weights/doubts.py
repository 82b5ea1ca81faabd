"""Independent signals against a device ("doubts"). A single one does not exclude a device.

    scarce      its median score is below `cut` of its prototype's mean                        trust.py
    far         || w_k - w || > reach median_j || w_j - w ||                                   norm_bound.py
    one label   its bias drifts to one label over all of its rounds (single_label.py), or it predicts one
                label for a fraction ALWAYS of all samples while the others do not
    senseless   mean over its rounds of rho_k < SENSE, with c its most frequent prediction,
                rho_k = rank correlation over x of  log p_k(c | x)  and  p(c | x),
                p the softmax of the median of all logits
    counts      its own label counts name a single label, while the others have many

With heterogeneous data any one of these occurs in honest devices: a device with mostly threes drifts towards them,
predicts them often, and is seldom the median of a fleet that has all digits. But it is still more confident in "three"
on a three, while the confidence of a device that labels everything "three" is unrelated to the sample. So a device with
two doubts is excluded, and a device with one is weighted by its score, at most 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor

from aggregator.fusion.types import Memory, Received

__all__ = ["ALWAYS", "SENSE", "Answers", "Doubts", "alone_by_counts", "answers_of", "mean_sense"]

ALWAYS = 0.95  # of the samples, or of the label counts
OTHERS = 0.75  # maximum for the others' median, or the signal is not specific
COUNTED = 0.6  # the same for label counts
SENSE = 0.1
_FACT = "trust.sense"  # device: [sum of rho_k, rounds]


@dataclass(slots=True)
class Doubts:
    """The doubts about one prototype's devices, as texts."""

    reasons: dict[str, list[str]]

    @classmethod
    def of(cls, updates: Sequence[Received]) -> Doubts:
        """None yet."""
        return cls({update.device: [] for update in updates})

    def add(self, device: str, why: str) -> None:
        """Add a doubt; ignored for unknown devices."""
        if device in self.reasons:
            self.reasons[device].append(why)

    @property
    def excluded(self) -> dict[str, str]:
        """The devices with two or more, and their doubts."""
        return {device: "; ".join(why) for device, why in self.reasons.items() if len(why) > 1}

    def share(self, device: str, relative: float) -> float:
        """Trust in a device: full without a doubt, its relative score with one."""
        count = len(self.reasons.get(device, ()))
        return 1.0 if count == 0 else min(1.0, relative) if count == 1 else 0.0


@dataclass(frozen=True, slots=True)
class Answers:
    """Statistics of the devices' predictions on the same inputs."""

    most: Tensor  # (K,) fraction of the inputs with the device's most frequent prediction
    sense: Tensor  # (K,) rho_k; NaN if undefined

    def only(self, rows: Sequence[int]) -> Answers:
        """The statistics of these devices."""
        return Answers(self.most[rows], self.sense[rows])


def answers_of(logits: Tensor) -> Answers:
    """From logits (K, N, C)."""
    count, inputs, classes = logits.shape
    bounded = logits.float().nan_to_num().clamp(-1e4, 1e4)
    together = bounded.median(0).values.softmax(1)  # (N, C)
    votes = torch.nn.functional.one_hot(bounded.argmax(2), classes).sum(1)  # (K, C)
    label = votes.argmax(1)
    log_probs = bounded.log_softmax(2).gather(2, label[:, None, None].expand(count, inputs, 1)).squeeze(2)
    return Answers(votes.amax(1) / inputs, rank_correlation(log_probs, together[:, label].t()))


def rank_correlation(a: Tensor, b: Tensor) -> Tensor:
    """Spearman's rank correlation of the rows of `a` and `b` (K, N); NaN if a row is constant."""
    a, b = _ranks(a), _ranks(b)
    a, b = a - a.mean(1, keepdim=True), b - b.mean(1, keepdim=True)
    return (a * b).sum(1) / (a.square().sum(1) * b.square().sum(1)).sqrt()


def _ranks(values: Tensor) -> Tensor:
    """Ranks within every row; equal values get the mean of their ranks."""
    ranks = []
    for row in values:
        _, at, counts = torch.unique(row, return_inverse=True, return_counts=True)
        last = counts.cumsum(0).double()
        ranks.append((last - (counts.double() - 1) / 2)[at])
    return torch.stack(ranks)


def mean_sense(answers: Answers, devices: Sequence[str], memory: Memory) -> dict[str, float]:
    """Mean of rho_k over the rounds in which a device answered, including this one; updates `memory`."""
    kept: dict[str, list[float]] = memory.facts.setdefault(_FACT, {})
    means = {}
    for device, value in zip(devices, answers.sense.tolist(), strict=True):
        total, rounds = kept.get(device, (0.0, 0))
        if value == value:  # not NaN
            total, rounds = total + value, rounds + 1
            kept[device] = [total, rounds]
        if rounds:
            means[device] = total / rounds
    return means


def always_the_same(most: Mapping[str, float]) -> set[str]:
    """Devices that predict (nearly) always the same label, while the others in `most` do not."""
    if len(most) < 3 or median(most.values()) > OTHERS:
        return set()
    return {device for device, share in most.items() if share >= ALWAYS}


def alone_by_counts(updates: Sequence[Received]) -> set[str]:
    """Devices that report a single label, while the others have many."""
    tops = {u.device: max(u.label_counts) / sum(u.label_counts) for u in updates if any(u.label_counts)}
    if len(tops) < 3 or median(tops.values()) > COUNTED:
        return set()
    return {device for device, share in tops.items() if share >= ALWAYS}
