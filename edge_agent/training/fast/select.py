"""Selects the fast path of a model's steps, if any."""

from __future__ import annotations

import logging

import torch
from torch import Tensor, nn

from edge_agent.training.fast.fused_step import FusedStep, layers_that_may
from edge_agent.training.fast.perceptron import Chain, chain_of
from edge_agent.training.params import LocalTraining
from edge_agent.training.trainer import LossFunction, Objective, Trainer
from models.on_device import device_of

__all__ = ["fast_trainer"]

log = logging.getLogger("edgestill.training")


def fast_trainer(
    model: nn.Module, x: Tensor, y: Tensor, how: LocalTraining, loss_fn: LossFunction, objective: Objective | None
) -> Trainer | None:
    """The fastest trainer that equals `Autograd` up to rounding; None if that is `Autograd` itself.

    Fast paths are written for the CPU at float32; elsewhere, and in mixed precision, they step aside.
    """
    device = device_of(model)
    if device.type != "cpu" or how.amp != "off":
        log.debug("%s, amp %s: every step by autograd, fast paths are for the CPU in float32", device, how.amp)
        return None
    if objective is not None:  # it may need its own gradients, or call a layer several times
        return None
    if x.dtype == torch.float32 and y.ndim == 1:
        layers = chain_of(model)
        if layers is not None:
            return Chain(layers, how, loss_fn)
    large = layers_that_may(model, how)
    return FusedStep(large, model, how, loss_fn) if large else None
