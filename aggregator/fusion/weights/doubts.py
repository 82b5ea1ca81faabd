"""What speaks against a device, from signals of different kinds. One of them alone excludes nobody.

    scarce      its median score is below `cut` of its prototype's mean                        trust.py
    far         || w_k - w || > reach median_j || w_j - w ||                                   norm_bound.py
    one label   its bias drifts to one label over all of its rounds (single_label.py), or it answers
                ALWAYS of all samples with one label where the others do not
    senseless   mean over its rounds of rho_k < SENSE, with c the label that it answers most,
                rho_k = rank correlation over x of  log p_k(c | x)  and  p(c | x),
                p the softmax of the median of all logits
    counts      by its own label counts it has one label alone, where the others have many

Heterogeneous data gives any one of these to honest devices: who has mostly threes leans to them, answers with them, and
is seldom the median of a fleet that knows all digits. But its "three" still is more likely for a three, where that of a
device that labels everything "three" says nothing about the sample. So who is left out has two doubts against it, and
who has one counts for what its score says, at most fully.
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
OTHERS = 0.75  # and no more of the others' median, or it is nothing special
COUNTED = 0.6  # likewise, of label counts
SENSE = 0.1
_FACT = "trust.sense"  # device: [sum of rho_k, rounds]


@dataclass(slots=True)
class Doubts:
    """Of one prototype's devices: what speaks against each, in words."""

    found: dict[str, list[str]]

    @classmethod
    def of(cls, updates: Sequence[Received]) -> Doubts:
        """None yet."""
        return cls({update.device: [] for update in updates})

    def add(self, device: str, why: str) -> None:
        """One more; of a device that is not among them, nothing."""
        if device in self.found:
            self.found[device].append(why)

    @property
    def excluded(self) -> dict[str, str]:
        """Who has two or more, and which."""
        return {device: "; ".join(why) for device, why in self.found.items() if len(why) > 1}

    def share(self, device: str, relative: float) -> float:
        """How far a device is trusted: fully without a doubt, by its score relative to the others' with one."""
        count = len(self.found.get(device, ()))
        return 1.0 if count == 0 else min(1.0, relative) if count == 1 else 0.0


@dataclass(frozen=True, slots=True)
class Answers:
    """What devices say to the same inputs, each in one number or two."""

    most: Tensor  # (K,) share of the inputs that are answered with the label that the device answers most
    sense: Tensor  # (K,) rho_k; NaN where it is not defined

    def only(self, rows: Sequence[int]) -> Answers:
        """Of these devices."""
        return Answers(self.most[rows], self.sense[rows])


def answers_of(logits: Tensor) -> Answers:
    """Of logits (K, N, C)."""
    count, inputs, classes = logits.shape
    bounded = logits.float().nan_to_num().clamp(-1e4, 1e4)
    together = bounded.median(0).values.softmax(1)  # (N, C)
    said = torch.nn.functional.one_hot(bounded.argmax(2), classes).sum(1)  # (K, C)
    label = said.argmax(1)
    own = bounded.log_softmax(2).gather(2, label[:, None, None].expand(count, inputs, 1)).squeeze(2)
    return Answers(said.amax(1) / inputs, rank_correlation(own, together[:, label].t()))


def rank_correlation(a: Tensor, b: Tensor) -> Tensor:
    """Spearman's, of the rows of `a` and `b` (K, N); NaN where a row is constant."""
    a, b = _ranks(a), _ranks(b)
    a, b = a - a.mean(1, keepdim=True), b - b.mean(1, keepdim=True)
    return (a * b).sum(1) / (a.square().sum(1) * b.square().sum(1)).sqrt()


def _ranks(values: Tensor) -> Tensor:
    """Of every row; equal values have the mean of their ranks."""
    ranks = []
    for row in values:
        _, at, counts = torch.unique(row, return_inverse=True, return_counts=True)
        last = counts.cumsum(0).double()
        ranks.append((last - (counts.double() - 1) / 2)[at])
    return torch.stack(ranks)


def mean_sense(answers: Answers, devices: Sequence[str], memory: Memory) -> dict[str, float]:
    """rho_k, mean over the rounds in which a device answered, this one among them; `memory` is brought up to date."""
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
    """Who answers (next to) everything alike, where the others of `most` do not."""
    if len(most) < 3 or median(most.values()) > OTHERS:
        return set()
    return {device for device, share in most.items() if share >= ALWAYS}


def alone_by_counts(updates: Sequence[Received]) -> set[str]:
    """Who has one label alone by what it says itself, where the others have many."""
    tops = {u.device: max(u.label_counts) / sum(u.label_counts) for u in updates if any(u.label_counts)}
    if len(tops) < 3 or median(tops.values()) > COUNTED:
        return set()
    return {device for device, share in tops.items() if share >= ALWAYS}
