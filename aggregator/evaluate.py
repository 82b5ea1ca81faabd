"""How good a model is on labelled samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.split import Prototype
from quant.layers import weights_as_they_are
from quant.pack import load_packed, pack_state

__all__ = ["Score", "evaluate", "score_state"]


@dataclass(frozen=True, slots=True)
class Score:
    """Top-1 accuracy, and the mean cross-entropy."""

    accuracy: float
    loss: float


@torch.inference_mode()
def evaluate(model: nn.Module, x: Tensor, y: Tensor, *, batch_size: int = 512) -> Score:
    """Score `model` on all of `x`, `y`, in eval mode; the mode it was in is restored."""
    was_training = model.training
    model.eval()
    correct, loss = 0, 0.0
    for start in range(0, len(x), batch_size):
        labels = y[start : start + batch_size]
        logits = model(x[start : start + batch_size])  # (B, C)
        correct += int((logits.argmax(1) == labels).sum())
        loss += F.cross_entropy(logits, labels, reduction="sum").item()
    model.train(was_training)
    return Score(correct / len(x), loss / len(x))


def score_state(model: Prototype, state: Mapping[str, Tensor], x: Tensor, y: Tensor) -> dict[str, float]:
    """Accuracy and loss of a full-precision state; for a quantized prototype, its accuracy at its own precision too.

    `model` is any module of the prototype; it holds the state afterwards.
    """
    load_packed(model, pack_state(state, floats="fp32"))
    with weights_as_they_are(model):
        full = evaluate(model, x, y)
    scores = {"accuracy": full.accuracy, "loss": full.loss}
    if model.spec.precision.quantized:
        scores["accuracy_quantized"] = evaluate(model, x, y).accuracy
    return scores
