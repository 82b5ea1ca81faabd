"""All teachers of a round, of every prototype, on the samples of distillation: a single pass for all results.

Each teacher sees each sample once. A mean is summed teacher by teacher and needs N x C numbers; the median, FedRAD's
scores and users' parts need the logits of all K teachers at once and get them in blocks of samples, within `budget`
bytes. With `keep`, all K x N x C logits of a scored pass are kept if they fit, for ensembles without some devices
(`without`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import torch
from torch import Tensor

from aggregator.fusion.process_pool import far_pool
from aggregator.fusion.teachers.combine import (
    STREAMS,
    TEACH,
    Running,
    Teach,
    mean_logits,
    median_logits,
    without_broken_rows,
)
from aggregator.fusion.teachers.logits import CPU, Teacher, all_logits
from aggregator.fusion.teachers.median_score import count_medians
from core.errors import ModelError, RoundError

__all__ = ["Ensemble", "UnansweredError"]

BUDGET = 64 * 2**20
UNKNOWN_CLASSES = 1000  # assumed for graphs


class UnansweredError(RoundError):
    """A sample without any finite answer: all teachers are out of float32's range."""


class Ensemble:
    """`teachers` on the samples `x` (N, ...).

    A device that teaches twice, also with a late model, is in `devices` twice. `teach` (a part, or the name of a
    built-in one), `temperature` and `scored` announce the results that will be needed, so that one pass computes all.
    The teachers run on `compute_device`.
    """

    def __init__(
        self,
        teachers: Sequence[Teacher],
        x: Tensor,
        *,
        teach: Teach | str | None = None,
        temperature: float = 1.0,
        scored: bool = False,
        keep: bool = False,
        compute_device: torch.device = CPU,
        workers: int | None = None,
        budget: int = BUDGET,
    ) -> None:
        self.devices = [teacher.device for teacher in teachers]
        if not teachers or not len(x):
            raise RoundError(f"an ensemble of {len(teachers)} teachers on {len(x)} samples")
        self._teachers, self._x = teachers, x
        self._teach = _part(teach) if teach is not None else None
        self._temperature, self._scored = temperature, scored
        self._compute_device, self._workers, self._budget = compute_device, workers, budget
        self._targets: dict[tuple[Teach, float], Tensor] = {}
        self._scores: Tensor | None = None
        self._keep = keep
        self._answers: Tensor | None = None  # (K, N, C), if kept

    def without(self, devices: Collection[str]) -> Ensemble:
        """The ensemble without these devices; unchanged if that is none or all of them."""
        left = [k for k, device in enumerate(self.devices) if device not in devices]
        if len(left) in (0, len(self.devices)):
            return self
        others = Ensemble(
            [self._teachers[k] for k in left],
            self._x,
            teach=self._teach,
            temperature=self._temperature,
            compute_device=self._compute_device,
            workers=self._workers,
            budget=self._budget,
        )
        if self._answers is not None:
            others._answers = self._answers[left]  # reuse their logits
        return others

    def taught(self, teach: Teach | str | None = None, temperature: float | None = None) -> Tensor:
        """Targets (N, C) as logits: T part(f / T), so that their softmax at temperature T is the part's output.

        Without arguments, the targets that the ensemble was built for; others cost another pass, once.
        """
        part = self._teach if teach is None else _part(teach)
        if part is None:
            raise RoundError("the ensemble was built without a teach part")
        key = _key(part, self._temperature if temperature is None else temperature)
        if key not in self._targets:
            self._pass(*key)
        targets = self._targets[key]
        if bool(targets.isnan().any()):
            lost = int(targets.isnan().any(1).sum())
            raise UnansweredError(
                f"no teacher has finite logits for {lost} of {len(targets)} samples; is the source sane?"
            )
        return targets

    def scores(self) -> Tensor:
        """Every teacher's share of the medians, (K,) float64, in the order of `devices`; see scores.py."""
        if self._scores is None:
            self._scored = True
            self._pass(*_key(self._teach or median_logits, self._temperature))
        assert self._scores is not None
        return self._scores

    def answers(self, count: int) -> tuple[list[str], Tensor]:
        """Devices and logits (K, n, C) for `count` evenly spaced samples, or for all if there are fewer."""
        rows = torch.arange(0, len(self._x), max(len(self._x) // count, 1))[:count]
        if self._answers is not None:
            return self.devices, self._answers[:, rows]
        return self.devices, torch.stack(list(self._logits(self._x[rows])))

    def accuracy(self, x: Tensor, y: Tensor, teach: Teach | str | None = None) -> float:
        """Accuracy of the ensemble on labelled samples; combined by the teach part by default."""
        part = _part(teach) if teach is not None else self._teach or mean_logits
        targets, _ = self._run(*_key(part, self._temperature), x, scored=False)
        return float((targets.argmax(1) == y.cpu()).double().mean())

    def _pass(self, part: Teach, temperature: float) -> None:
        targets, counts = self._run(part, temperature, self._x, scored=self._scored and self._scores is None)
        self._targets[part, temperature] = targets
        if counts is not None:
            self._scores = counts.double() / counts.sum().clamp_min(1)

    def _run(self, part: Teach, temperature: float, x: Tensor, *, scored: bool) -> tuple[Tensor, Tensor | None]:
        """Targets for `x` and, if requested, the counts of medians."""
        stream = STREAMS.get(part)
        asked = x is not self._x or self._answers is None
        if stream is not None and not scored and asked:
            running = Running(stream)
            for logits in self._logits(x):
                running.add(logits if temperature == 1 else logits / temperature)
            return _warmed(running.result(), temperature), None
        targets, counts, kept = [], torch.zeros(len(self.devices), dtype=torch.long), list[Tensor]()
        for block in self._blocks(x) if asked else self._kept_blocks():
            if scored and self._keep and 4 * block[:, :1].numel() * len(x) <= self._budget:
                kept.append(block)
            medians = median_logits(block) if scored else None
            if medians is not None:
                counts += count_medians(block, medians)
            if medians is not None and part is median_logits:
                targets.append(medians)
            else:
                targets.append(_warmed(part(block if temperature == 1 else block / temperature), temperature))
        if kept:
            self._answers = torch.cat(kept, 1)
        return torch.cat(targets), counts if scored else None

    def _logits(self, x: Tensor) -> Iterator[Tensor]:
        shape: torch.Size | None = None
        for device, logits in zip(self.devices, self._asked(x), strict=True):
            shape = shape or logits.shape
            if logits.shape != shape or logits.ndim != 2 or len(logits) != len(x):
                raise ModelError(f"teacher {device!r} answers {tuple(logits.shape)}, expected {tuple(shape)}")
            yield without_broken_rows(logits)

    def _asked(self, x: Tensor) -> Iterator[Tensor]:
        pool = far_pool()
        if pool is not None and self._compute_device.type == "cpu":
            from aggregator.fusion.teachers.remote import can_travel, far_logits

            if can_travel(self._teachers):
                return far_logits(pool, self._teachers, x)
        return all_logits(self._teachers, x, compute_device=self._compute_device, workers=self._workers)

    def _blocks(self, x: Tensor) -> Iterator[Tensor]:
        """(K, B, C) for as many samples at a time as the budget allows."""
        classes = max((teacher.classes or 0 for teacher in self._teachers), default=0) or UNKNOWN_CLASSES
        size = max(1, self._budget // (4 * len(self._teachers) * classes))
        for start in range(0, len(x), size):
            yield torch.stack(list(self._logits(x[start : start + size])))

    def _kept_blocks(self) -> Iterator[Tensor]:
        assert self._answers is not None
        yield self._answers  # within the budget


def _part(teach: Teach | str) -> Teach:
    return TEACH[teach] if isinstance(teach, str) else teach


def _key(part: Teach, temperature: float) -> tuple[Teach, float]:
    """Means and medians of logits do not depend on the temperature."""
    return part, 1.0 if part in (mean_logits, median_logits) else temperature


def _warmed(targets: Tensor, temperature: float) -> Tensor:
    return targets if temperature == 1 else targets * temperature
