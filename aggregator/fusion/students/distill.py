"""The loop of ensemble distillation: a student is trained on targets.

    w <- w - eta_j grad KL(sigma(target / T) || sigma(f(w, x) / T))         mean over the mini-batch

(Lin et al. 2020, FedDF, Algorithm 1 and section 4.1, arXiv:2006.07242.) As in the authors' code there is no factor
T^2; at their T = 1 it would be 1. The student is in training mode, so its BatchNorm statistics become those of the
samples it learns from. This, too, is as in their code, and repairs the damage done by averaging.

A quantized student learns in two stages, as low-precision networks learn from full-precision ones (Mishra & Marr 2018,
Apprentice, arXiv:1711.05852; Polino et al. 2018, arXiv:1802.05668). In a fraction `float_share` of the steps it learns
from the teachers at full precision; in the others, through its own quantizer Q, from the teachers and from its
full-precision result w1:

    w1 <- argmin KL(sigma(target) || sigma(f(w)))                                  from the start, unquantized
    w2 <- argmin KL((sigma(target) + sigma(f(w1))) / 2 || sigma(f(Q(w))))          from w1, straight through Q

The mean of many 1-bit models is not a 1-bit model, and may be better than all of its teachers: the second stage
transfers that to the board. With only the teachers (`float_share = 0`), it would be lost.

With a validation set the best evaluated student is the result, including the initial weights (the authors exclude
these); without one, the last. Students are compared at the prototype's own precision, as boards would run them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from aggregator.fusion.numerics.optimizers import rate
from aggregator.fusion.students.batches import batches, draw_samples, num_steps
from aggregator.fusion.students.student import Learner, MeanState
from aggregator.fusion.types import State
from aggregator.recipes.catalogue import Distillation
from core.errors import RoundError
from core.settings import replace
from models.compute_device import CPU
from models.on_device import seeded_on
from models.split import Prototype

__all__ = ["Distilled", "distill", "draw_samples", "num_steps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distilled:
    """The student, on the CPU, and statistics of its training."""

    state: State
    steps: int  # taken
    best_step: int  # step of the selected student; 0: the initial weights
    accuracy: float | None = None  # on the validation set, at the precision of `check_at`
    start_accuracy: float | None = None  # of the initial weights


def distill(
    model: Prototype,
    start: Mapping[str, Tensor],
    x: Tensor,
    targets: Tensor,
    config: Distillation,
    *,
    validation: tuple[Tensor, Tensor] | None = None,
    generator: torch.Generator,
    device: torch.device = CPU,
    amp: str = "off",
) -> Distilled:
    """Train `model` from `start` on `targets` (N, C), the teachers' logits for `x`. The weights of `model` are
    overwritten; equal generators give equal students, on any `device` up to rounding."""
    if len(x) != len(targets) or not len(x):
        raise RoundError(f"{model.spec}: {len(x)} samples for {len(targets)} targets")
    config = config.sized(len(x))
    steps = num_steps(len(x), config)
    at_full_precision = min(round(config.float_share * steps), steps - 1)
    with seeded_on(device, generator, model):
        if config.student == "own" and model.spec.precision.quantized and at_full_precision > 0:
            first = replace(config, student="float", check_at="float", steps=at_full_precision)
            second = replace(config, steps=steps - at_full_precision)
            return _in_two_stages(model, start, x, targets, (first, second), validation, generator, device, amp)
        p = F.softmax(targets / config.temperature, dim=1)
        return _Loop(Learner(model, start, config, device, amp), x, p, config, validation, generator).run()


def _in_two_stages(
    model: Prototype,
    start: Mapping[str, Tensor],
    x: Tensor,
    targets: Tensor,
    stages: tuple[Distillation, Distillation],
    validation: tuple[Tensor, Tensor] | None,
    generator: torch.Generator,
    device: torch.device,
    amp: str,
) -> Distilled:
    """Train at full precision, then through the quantizer; or return the start, if it is as good."""
    first, second = stages
    p = F.softmax(targets / first.temperature, dim=1)
    student = Learner(model, start, first, device, amp)
    full = _Loop(student, x, p, first, validation, generator).run()
    student.load(full.state)
    p = (p + F.softmax(student.logits(x) / second.temperature, dim=1)) / 2
    own = _Loop(Learner(model, full.state, second, device, amp), x, p, second, validation, generator).run()
    steps = full.steps + own.steps
    if validation is None:
        return dataclasses.replace(own, steps=steps, best_step=full.steps + own.best_step)
    begun = Learner(model, start, second, device).accuracy(validation)
    if second.keep_start and own.accuracy is not None and begun >= own.accuracy:
        return Distilled(state=dict(start), steps=steps, best_step=0, accuracy=begun, start_accuracy=begun)
    return dataclasses.replace(own, steps=steps, best_step=full.steps + own.best_step, start_accuracy=begun)


class _Loop:
    """The steps, the evaluations on the validation set, and the selection of the result."""

    def __init__(
        self,
        student: Learner,
        x: Tensor,
        p: Tensor,  # (N, C): target probabilities
        config: Distillation,
        validation: tuple[Tensor, Tensor] | None,
        generator: torch.Generator,
    ) -> None:
        self.student, self.config, self.x, self.p = student, config, x, p
        self.steps = num_steps(len(x), config)
        self.batches = batches(len(x), config, generator)
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
            self.accuracy = self.start_accuracy if self.config.keep_start else -1.0
        taken = 0
        while taken < self.steps and not self._patience_ended(taken):
            epoch, ends, chosen = next(self.batches)
            lr = rate(self.config, taken, self.steps, epoch)
            self.student.step(self.x.index_select(0, chosen), self.p.index_select(0, chosen), lr)
            taken += 1
            self._average(taken, ends)
            if taken % self.config.check_every == 0 or taken == self.steps:
                self._look(taken)
        return self._result(taken)

    def _patience_ended(self, taken: int) -> bool:
        return self.validation is not None and not self.config.swa and taken - self.best_step >= self.config.patience

    def _average(self, taken: int, epoch_ends: bool) -> None:
        due = epoch_ends if self.config.swa < 0 else self.config.swa > 0 and taken % self.config.swa == 0
        if due:
            self.mean.add(self.student.state())

    def _look(self, taken: int) -> None:
        if self.validation is None or self.config.swa:
            return
        accuracy = self.student.accuracy(self.validation)
        if self.accuracy is None or accuracy > self.accuracy:
            self.accuracy, self.best, self.best_step = accuracy, self.student.state(), taken

    def _result(self, taken: int) -> Distilled:
        if self.config.swa and self.mean.count:
            self.best, self.best_step = self.mean.result(), taken
        elif self.validation is None or self.config.swa:
            self.best, self.best_step = self.student.state(), taken
        if not all(bool(value.isfinite().all()) for value in self.best.values()):
            self.best, self.best_step = self.start, 0  # it diverged, and there was no evaluation
        if self.validation is not None and (self.config.swa or self.best_step == 0):
            self.student.load(self.best)
            self.accuracy = self.student.accuracy(self.validation)
        return Distilled(
            state=self.best,
            steps=taken,
            best_step=self.best_step,
            accuracy=self.accuracy,
            start_accuracy=self.start_accuracy,
        )
