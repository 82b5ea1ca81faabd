"""How FedGen's authors score (Zhu et al. 2021), and how we do; everything in percent.

    slices     every user's model, which is the global one with the user's own BatchNorm statistics, on the user's own
               slice of the test set: labels that it has trained on, and no others; all users' answers pooled
    whole      the global model on the whole test set; where devices keep models, the mean over theirs
    ensemble   argmax of the sum of all users' logits, on all slices together

A table of theirs has the mean of the five best rounds of a run; ours is the mean of the last ten.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import torch
from torch import Tensor

from fleet.experiments.fedgen.patches import Scratch
from fleet.experiments.fedgen.stack import Stack
from fleet.experiments.fedgen.users import Users

__all__ = ["best_five", "ensemble_score", "last_ten", "own_score", "slice_score", "whole_score"]

AT_ONCE = 512  # images
THINNED = 5  # of the test set, every fifth image, where twenty models are asked


def slice_score(models: Stack, users: Users) -> float:
    """The authors'."""
    right = total = 0
    for model, rows in zip(_singles(models), users.slices, strict=True):
        if len(rows):
            right += int((_answers(model, users.test_x[rows]).argmax(1) == users.test_y[rows]).sum())
            total += len(rows)
    return 100 * right / total


def whole_score(model: Stack, users: Users) -> float:
    """Of one model."""
    return 100 * float((_answers(model, users.test_x).argmax(1) == users.test_y).double().mean())


def own_score(models: Stack, users: Users) -> float:
    """Mean over the users' models, on every fifth image."""
    x, y = users.test_x[::THINNED], users.test_y[::THINNED]
    return fmean(100 * float((_answers(model, x).argmax(1) == y).double().mean()) for model in _singles(models))


def ensemble_score(models: Stack, users: Users) -> float:
    """Of all models together."""
    rows = torch.cat(list(users.slices))
    x = users.test_x[rows]
    total = sum((_answers(model, x) for model in _singles(models)), torch.zeros(()))
    return 100 * float((total.argmax(1) == users.test_y[rows]).double().mean())


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


def _singles(models: Stack) -> list[Stack]:
    scratch = Scratch()
    tensors = models.tensors.items()
    return [Stack({name: tensor[k : k + 1] for name, tensor in tensors}, scratch) for k in range(len(models))]


def _answers(model: Stack, x: Tensor) -> Tensor:
    """Logits (N, C)."""
    return torch.cat([model.logits(part[None])[0].T for part in x.split(AT_ONCE)])
