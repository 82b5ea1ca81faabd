"""A student learns from targets: the loop of ensemble distillation.

    w <- w - eta_j grad KL(sigma(target / T) || sigma(f(w, x) / T))         mean over the mini-batch

(Lin et al. 2020, FedDF, Algorithm 1 and section 4.1, arXiv:2006.07242.) As in the authors' code there is no factor
T^2; at their T = 1 it would be 1. The student is in training mode, so its BatchNorm statistics become those of the
samples it learns from. That, too, is theirs, and mends what averaging did to them.

With a validation set the best of the students looked at is the result, the starting point among them (theirs leaves it
out); without one, the last. They are compared at the prototype's own precision, as boards would run them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from aggregator.fusion.devices import seeded_on
from aggregator.fusion.draws import batches, draw_samples, num_steps
from aggregator.fusion.learner import Learner, MeanState
from aggregator.fusion.optimizers import rate
from aggregator.fusion.types import State
from aggregator.recipes import Distillation
from models.split import Prototype
from wire.errors import RoundError

__all__ = ["Distilled", "distill", "draw_samples", "num_steps"]

CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Distilled:
    """The student, on the CPU, and how it came about."""

    state: State
    steps: int  # that were taken
    best_step: int  # after which the student was as it is; 0: the starting point
    accuracy: float | None = None  # on the validation set, at the precision that `check_at` says
    start_accuracy: float | None = None  # of the starting point


def distill(
    model: Prototype,
    start: Mapping[str, Tensor],
    x: Tensor,
    targets: Tensor,
    how: Distillation,
    *,
    validation: tuple[Tensor, Tensor] | None = None,
    generator: torch.Generator,
    device: torch.device = CPU,
) -> Distilled:
    """Train `model` from `start` on `targets` (N, C), the logits that teachers gave for `x`. The weights of `model` are
    lost; equal generators give equal students."""
    if len(x) != len(targets) or not len(x):
        raise RoundError(f"{model.spec}: {len(x)} samples for {len(targets)} targets")
    how = how.sized(len(x))
    student = Learner(model, start, how, device)
    with seeded_on(device, generator):
        return _Loop(student, x, targets, how, validation, generator).run()


class _Loop:
    """The steps, the looks at the validation set, and which student is the result."""

    def __init__(
        self,
        student: Learner,
        x: Tensor,
        targets: Tensor,
        how: Distillation,
        validation: tuple[Tensor, Tensor] | None,
        generator: torch.Generator,
    ) -> None:
        self.student, self.how, self.x = student, how, x
        self.p = F.softmax(targets / how.temperature, dim=1)
        self.steps = num_steps(len(x), how)
        self.batches = batches(len(x), how, generator)
        self.validation = None
        if validation is not None:
            self.validation = student.to_device(validation[0]), validation[1].to(student.device)
        self.mean = MeanState()
        self.start = self.best = student.state()
        self.start_accuracy: float | None = None
        self.accuracy: float | None = None
        self.best_step = 0

    def run(self) -> Distilled:
        if self.validation is not None:
            self.start_accuracy = self.student.accuracy(self.validation)
            self.accuracy = self.start_accuracy if self.how.keep_start else -1.0
        taken = 0
        while taken < self.steps and not self._patience_ended(taken):
            epoch, ends, chosen = next(self.batches)
            lr = rate(self.how, taken, self.steps, epoch)
            self.student.step(self.x.index_select(0, chosen), self.p.index_select(0, chosen), lr)
            taken += 1
            self._average(taken, ends)
            if taken % self.how.check_every == 0 or taken == self.steps:
                self._look(taken)
        return self._result(taken)

    def _patience_ended(self, taken: int) -> bool:
        return self.validation is not None and not self.how.swa and taken - self.best_step >= self.how.patience

    def _average(self, taken: int, epoch_ends: bool) -> None:
        due = epoch_ends if self.how.swa < 0 else self.how.swa > 0 and taken % self.how.swa == 0
        if due:
            self.mean.add(self.student.state())

    def _look(self, taken: int) -> None:
        if self.validation is None or self.how.swa:
            return
        accuracy = self.student.accuracy(self.validation)
        if self.accuracy is None or accuracy > self.accuracy:
            self.accuracy, self.best, self.best_step = accuracy, self.student.state(), taken

    def _result(self, taken: int) -> Distilled:
        if self.how.swa and self.mean.count:
            self.best, self.best_step = self.mean.result(), taken
        elif self.validation is None or self.how.swa:
            self.best, self.best_step = self.student.state(), taken
        if not all(bool(value.isfinite().all()) for value in self.best.values()):
            self.best, self.best_step = self.start, 0  # it diverged, and there was no look that could tell
        if self.validation is not None and (self.how.swa or self.best_step == 0):
            self.student.load(self.best)
            self.accuracy = self.student.accuracy(self.validation)
        return Distilled(
            state=self.best,
            steps=taken,
            best_step=self.best_step,
            accuracy=self.accuracy,
            start_accuracy=self.start_accuracy,
        )
