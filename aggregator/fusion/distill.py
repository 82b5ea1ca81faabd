"""A student learns from targets: the loop of ensemble distillation.

    w <- w - eta_j grad KL(sigma(target / T) || sigma(f(w, x) / T))         mean over the mini-batch

(Lin et al. 2020, FedDF, Algorithm 1 and section 4.1, arXiv:2006.07242.) As in the authors' code there is no factor
T^2; at their T = 1 it would be 1. The student is in training mode, so its BatchNorm statistics become those of the
samples it learns from. That, too, is theirs, and mends what averaging did to them.

With a validation set the best of the students looked at is the result, the starting point among them (theirs leaves it
out); without one, the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from aggregator.evaluate import evaluate
from aggregator.fusion.devices import autocast
from aggregator.fusion.optimizers import Optimizer, clip_, make_optimizer, rate
from aggregator.fusion.types import State
from aggregator.recipes import Distillation
from models.seeding import seeded
from models.split import Prototype
from quant.layers import weights_as_they_are
from quant.weight import QuantizedWeight
from wire.errors import RoundError

__all__ = ["Distilled", "distill", "draw_samples", "num_steps"]

CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Distilled:
    """The student, on the CPU, and how it came about."""

    state: State
    steps: int  # that were taken
    best_step: int  # after which the student was as it is; 0: the starting point
    accuracy: float | None = None  # on the validation set
    start_accuracy: float | None = None  # of the starting point


def draw_samples(n: int, how: Distillation, generator: torch.Generator) -> Tensor:
    """Which of `n` samples distillation will use, in increasing order: all, or as many as its steps can draw.

    Decided before the teachers are asked, so that they see no sample that no student does.
    """
    wanted = n if how.epochs else min(n, how.steps * how.batch_size)
    if wanted == n:
        return torch.arange(n)
    return torch.randperm(n, generator=generator)[:wanted].sort().values if how.shuffle else torch.arange(wanted)


def num_steps(n: int, how: Distillation) -> int:
    """The most steps that distillation on `n` samples takes."""
    per_epoch = sum(1 for _ in _epoch(torch.arange(n), how.batch_size))
    return min(how.steps, how.epochs * per_epoch) if how.epochs else how.steps


def _epoch(order: Tensor, batch_size: int) -> Iterator[Tensor]:
    """The last, smaller batch is kept unless it has one sample, which BatchNorm cannot normalise."""
    for chosen in order.split(batch_size):
        if len(chosen) > 1 or batch_size == 1 or len(order) == 1:
            yield chosen


def _batches(n: int, how: Distillation, generator: torch.Generator) -> Iterator[tuple[int, bool, Tensor]]:
    """(epoch, whether it ends with this batch, indices), without end."""
    epoch = 0
    while True:
        order = torch.randperm(n, generator=generator) if how.shuffle else torch.arange(n)
        batches = list(_epoch(order, how.batch_size))
        for number, chosen in enumerate(batches, start=1):
            yield epoch, number == len(batches), chosen
        epoch += 1


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
    student = _Student(model, start, how, device)
    with seeded(generator), student.precision():
        return _Loop(student, x, targets, how, validation, generator).run()


class _Student:
    """The model on its device, at the precision that it is trained at, with its optimizer."""

    def __init__(self, model: Prototype, start: Mapping[str, Tensor], how: Distillation, device: torch.device) -> None:
        self.model, self.how, self.device = model, how, device
        for module in model.modules():
            if isinstance(module, QuantizedWeight):
                module.unfreeze_weight()
        model.load_state_dict(dict(start), strict=False)
        model.to(device).train().requires_grad_(True)
        self.images = any(p.ndim == 4 for p in model.parameters())
        if self.images:
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
        self.params: list[Tensor] = list(model.parameters())
        self.optimizer: Optimizer = make_optimizer(self.params, how)
        self.names = list(start)

    def precision(self) -> AbstractContextManager[None]:
        """Quantized weights as they are with `student = "float"`; straight through their quantizers with "own"."""
        return weights_as_they_are(self.model) if self.how.student == "float" else nullcontext()

    def to_device(self, x: Tensor) -> Tensor:
        """A batch as the model takes it fastest."""
        if self.images and x.ndim == 4:
            return x.to(self.device, memory_format=torch.channels_last)
        return x.to(self.device)

    def step(self, x: Tensor, target: Tensor, lr: float) -> None:
        """One step; `target` holds probabilities."""
        with autocast(self.device):
            logits = self.model(self.to_device(x))
        log_p = F.log_softmax(logits.float() / self.how.temperature, dim=1)
        loss = F.kl_div(log_p, target.to(self.device), reduction="batchmean")
        grads = list(torch.autograd.grad(loss, self.params, materialize_grads=True))
        with torch.no_grad():
            if self.how.clip:
                clip_(grads, self.how.clip)
            self.optimizer.step(grads, lr)

    def accuracy(self, validation: tuple[Tensor, Tensor]) -> float:
        """On the labelled samples, which are on the student's device."""
        return evaluate(self.model, *validation).accuracy

    def state(self) -> State:
        """A copy of the tensors that the starting point had, on the CPU."""
        own = self.model.state_dict()
        return {name: own[name].detach().to("cpu", copy=True).contiguous() for name in self.names}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take the tensors of `state`."""
        self.model.load_state_dict(dict(state), strict=False)


@dataclass(slots=True)
class _Mean:
    """Stochastic weight averaging: the mean of the students that it was shown."""

    total: State = field(default_factory=dict)
    count: int = 0

    def add(self, state: State) -> None:
        self.count += 1
        for name, value in state.items():
            if name not in self.total:
                self.total[name] = value.double()
            else:
                self.total[name] += value

    def result(self) -> State:
        return {name: (value / self.count).float() for name, value in self.total.items()}


class _Loop:
    """The steps, the looks at the validation set, and which student is the result."""

    def __init__(
        self,
        student: _Student,
        x: Tensor,
        targets: Tensor,
        how: Distillation,
        validation: tuple[Tensor, Tensor] | None,
        generator: torch.Generator,
    ) -> None:
        self.student, self.how, self.x = student, how, x
        self.p = F.softmax(targets / how.temperature, dim=1)
        self.steps = num_steps(len(x), how)
        self.batches = _batches(len(x), how, generator)
        self.validation = None
        if validation is not None:
            self.validation = student.to_device(validation[0]), validation[1].to(student.device)
        self.mean = _Mean()
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
            self.student.step(self.x[chosen], self.p[chosen], lr)
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
