"""How good a model is on labelled samples."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Score", "evaluate"]


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
