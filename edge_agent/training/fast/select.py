"""Selects the fast path of a model's steps, if any."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edge_agent.training.fast.fused_step import FusedStep, layers_that_may
from edge_agent.training.fast.perceptron import Chain, chain_of
from edge_agent.training.params import LocalTraining
from edge_agent.training.trainer import LossFunction, Objective, Trainer

__all__ = ["fast_trainer"]


def fast_trainer(
    model: nn.Module, x: Tensor, y: Tensor, how: LocalTraining, loss_fn: LossFunction, objective: Objective | None
) -> Trainer | None:
    """The fastest trainer that equals `Autograd` up to rounding; None if that is `Autograd` itself."""
    if objective is not None:  # it may need its own gradients, or call a layer several times
        return None
    if x.dtype == torch.float32 and y.ndim == 1:
        layers = chain_of(model)
        if layers is not None:
            return Chain(layers, how, loss_fn)
    large = layers_that_may(model, how)
    return FusedStep(large, model, how, loss_fn) if large else None
