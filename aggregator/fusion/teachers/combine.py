"""Teach parts: combine the logits of K teachers, (K, B, C) in, (B, C) out.

Symbols: f(w_k, x) are the logits of teacher k, sigma is softmax. A row with NaN is a missing answer of a teacher; the
others are combined without it. Means are summed in float64 and in the order of the teachers, so any number of blocks
and workers gives the same bits.

A mean needs no (K, N, C) array: `STREAMS` defines the summand and the final transformation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = [
    "STREAMS",
    "TEACH",
    "Running",
    "Stream",
    "Teach",
    "mean_logits",
    "mean_probabilities",
    "median_logits",
    "without_broken_rows",
]

Teach = Callable[[Tensor], Tensor]


def mean_logits(logits: Tensor) -> Tensor:
    """AVGLOGITS: sigma(1/K sum_k f(w_k, x)) is the target (Lin et al. 2020, Algorithm 1, arXiv:2006.07242)."""
    return _summed(logits, STREAMS[mean_logits])


def median_logits(logits: Tensor) -> Tensor:
    """The median of every class's logits, sigma(median_k f(w_k, x)) (Sturluson et al. 2021, FedRAD).

    For an even number the lower median, as in torch.median: it is one teacher's own logit, which can be credited.
    """
    return logits.nanmedian(0).values


def mean_probabilities(logits: Tensor) -> Tensor:
    """log(1/K sum_k sigma(f(w_k, x))): its softmax is the mean of the probabilities (Chen & Chao 2021, FedBE,
    arXiv:2009.01974, equation 6)."""
    return _summed(logits, STREAMS[mean_probabilities])


@dataclass(frozen=True, slots=True)
class Stream:
    """A teach part as a mean: `each` teacher's (B, C) logits to what is averaged, and the mean to logits."""

    each: Callable[[Tensor], Tensor]
    finish: Callable[[Tensor], Tensor]


def _probabilities(logits: Tensor) -> Tensor:
    return logits.double().softmax(1)


def _log(probabilities: Tensor) -> Tensor:
    return probabilities.clamp_min(torch.finfo(torch.float32).tiny).log()


def _same(logits: Tensor) -> Tensor:
    return logits


#: The parts that can be summed teacher by teacher.
STREAMS: Mapping[Teach, Stream] = {
    mean_logits: Stream(_same, _same),
    mean_probabilities: Stream(_probabilities, _log),
}
#: By the names that recipes use.
TEACH: Mapping[str, Teach] = {
    "mean-logits": mean_logits,
    "median-logits": median_logits,
    "mean-probabilities": mean_probabilities,
}


class Running:
    """A running mean over teachers; a sample's mean is over those with an answer."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._total: Tensor | None = None  # (N, C) float64
        self._count: Tensor | None = None  # (N, 1)

    def add(self, logits: Tensor) -> None:
        """The next teacher's (N, C) logits, without broken rows."""
        there = ~logits.isnan().any(1, keepdim=True)
        value = self._stream.each(logits).double().where(there, 0.0)
        if self._total is None or self._count is None:
            self._total, self._count = value, there.long()
        else:
            self._total += value
            self._count += there

    def result(self) -> Tensor:
        """The mean as logits, float32; NaN for samples without any answer."""
        assert self._total is not None, "no teacher"
        assert self._count is not None
        return self._stream.finish(self._total / self._count).float()


def _summed(logits: Tensor, stream: Stream) -> Tensor:
    running = Running(stream)
    for answer in logits:
        running.add(answer)
    return running.result()


def without_broken_rows(logits: Tensor) -> Tensor:
    """(..., C) logits with rows that are not finite set to NaN; the same tensor if all are finite."""
    whole = logits.isfinite().all(-1, keepdim=True)
    return logits if bool(whole.all()) else logits.where(whole, torch.nan)
