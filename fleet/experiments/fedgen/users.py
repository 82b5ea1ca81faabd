"""The users of FedGen's tables: their images of MNIST, their slices of its test set, and the batches that they draw."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_agent.training.label_privacy import told_counts
from fleet.data import Dataset
from fleet.experiments.fedgen.plans import Plan
from fleet.partition.fedgen import fedgen, fedgen_test
from fleet.simulation.seeds import numpy_rng

__all__ = ["Stream", "Users", "make_users"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """Everybody's samples; `own` and `slices` are rows of the shared tensors, by user."""

    x: Tensor  # of all training images
    y: Tensor
    own: Sequence[NDArray[np.int64]]
    test_x: Tensor
    test_y: Tensor
    slices: Sequence[Tensor]  # of the test set: labels that the user trains on, and no others
    proxy: Tensor | None  # images that nobody has, without labels
    counts: Sequence[tuple[int, ...]]  # label counts as the user tells them

    @property
    def classes(self) -> int:
        """C."""
        return len(self.counts[0])


def make_users(dataset: Dataset, plan: Plan, *, seed: int) -> Users:
    """The authors' partition, which is the same for all seeds."""
    own = fedgen(dataset.y_train, plan.devices, alpha=plan.alpha)
    slices = [torch.from_numpy(rows) for rows in fedgen_test(own, dataset.y_train, dataset.y_test)]
    rows = np.concatenate(own)
    starts = np.cumsum([0] + [len(part) for part in own])
    proxy = None
    if plan.proxy:
        left = np.setdiff1d(np.arange(len(dataset.y_train)), rows)
        chosen = numpy_rng(seed, "proxy").permutation(left)[: plan.proxy]
        proxy = torch.from_numpy(dataset.inputs(dataset.x_train[np.sort(chosen)]))
    return Users(
        x=torch.from_numpy(dataset.inputs(dataset.x_train[rows])),
        y=torch.from_numpy(dataset.y_train[rows]),
        own=[np.arange(a, b) for a, b in itertools.pairwise(starts)],
        test_x=torch.from_numpy(dataset.inputs(dataset.x_test)),
        test_y=torch.from_numpy(dataset.y_test.copy()),
        slices=slices,
        proxy=proxy,
        counts=[_told(dataset.y_train[part], dataset.classes, plan, seed, k) for k, part in enumerate(own)],
    )


def _told(labels: NDArray[np.int64], classes: int, plan: Plan, seed: int, user: int) -> tuple[int, ...]:
    counts = np.bincount(labels, minlength=classes).tolist()
    secret = numpy_rng(seed, "secret", user).bytes(32)
    return told_counts(counts, secret=secret, epsilon=plan.count_epsilon, width=plan.count_bins)


class Stream:
    """A user's samples in random order, again and again; batches are always full and go on where the last one ended.

    The authors' loader goes on from round to round too, and drops what is left of an epoch; here it opens the next
    batch, so that a user with fewer samples than a batch takes part.
    """

    def __init__(self, own: NDArray[np.int64], rng: np.random.Generator) -> None:
        self._own, self._rng = own, rng
        self._left = own[:0]

    def take(self, count: int) -> NDArray[np.int64]:
        """The next `count` rows."""
        while len(self._left) < count:
            self._left = np.concatenate([self._left, self._rng.permutation(self._own)])
        taken, self._left = self._left[:count], self._left[count:]
        return taken
