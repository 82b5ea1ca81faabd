"""Accuracy and loss of a model on labelled samples; and the losses reported by devices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.compute_device import CPU
from models.on_device import device_of, on_device
from models.split import Prototype
from quant.layers import weights_as_they_are
from quant.pack import load_packed, pack_state

__all__ = ["BATCH", "Counted", "Score", "count", "evaluate", "mean_train_loss", "score_state"]

BATCH = 128  # larger batches are slower in large CNNs, and take more memory


#: Of one batch: correct answers by label, and the sum of the cross-entropies.
Counted = tuple[Sequence[int], float]


@dataclass(frozen=True, slots=True)
class Score:
    """Top-1 accuracy, the mean cross-entropy, and the number of correct predictions by label."""

    accuracy: float
    loss: float
    correct: tuple[int, ...] = ()

    @classmethod
    def of(cls, counted: Sequence[Counted], samples: int) -> Score:
        """From the results of `count`, batch by batch."""
        correct = tuple(map(sum, zip(*(by_label for by_label, _ in counted), strict=True)))
        return cls(sum(correct) / samples, sum(loss for _, loss in counted) / samples, correct)


def evaluate(model: nn.Module, x: Tensor, y: Tensor, *, batch_size: int = BATCH) -> Score:
    """Score `model` on all of `x`, `y`, in eval mode, where it is; the mode it was in is restored."""
    return Score.of(count(model, x, y, batch_size=batch_size), len(x))


@torch.inference_mode()
def count(model: nn.Module, x: Tensor, y: Tensor, *, batch_size: int = BATCH) -> list[Counted]:
    """Per batch, the correct answers by label and the sum of the cross-entropies."""
    was_training = model.training
    model.eval()
    device = device_of(model)
    counted: list[Counted] = []
    for start in range(0, len(x), batch_size):
        labels = y[start : start + batch_size].to(device)
        logits = model(x[start : start + batch_size].to(device))  # (B, C)
        hits = labels[logits.argmax(1) == labels]
        correct = torch.bincount(hits, minlength=logits.shape[1]).tolist()
        counted.append((correct, F.cross_entropy(logits, labels, reduction="sum").item()))
    model.train(was_training)
    return counted


def score_state(
    model: Prototype,
    state: Mapping[str, Tensor],
    x: Tensor,
    y: Tensor,
    *,
    floats: str = "fp32",
    device: torch.device = CPU,
) -> dict[str, float]:
    """Accuracy and loss of a state as run by a board: published with `floats`, at the prototype's own precision.

    `accuracy_float`, which only quantized prototypes have, is that with the full-precision weights. `model` is any
    module of the prototype; it runs on `device` and has the state loaded afterwards.
    """
    load_packed(model, pack_state(state, floats=floats))
    with on_device(model, device):
        deployed = evaluate(model, x, y)
    scores = {"accuracy": deployed.accuracy, "loss": deployed.loss}
    if model.spec.precision.quantized:
        load_packed(model, pack_state(state, floats="fp32"))
        with on_device(model, device), weights_as_they_are(model):
            scores["accuracy_float"] = evaluate(model, x, y).accuracy
    return scores


def mean_train_loss(reported: Sequence[tuple[float, int]]) -> float | None:
    """The mean of the devices' losses, weighted by their counted examples; None if none reported a finite one.

    Only for reports: no decision depends on it, because a device may report any number. Missing and non-finite values
    are ignored.
    """
    finite = [(loss, examples) for loss, examples in reported if math.isfinite(loss)]
    total = sum(examples for _, examples in finite)
    return sum(loss * (examples / total) for loss, examples in finite) if total else None
