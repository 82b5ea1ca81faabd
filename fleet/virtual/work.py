"""Estimates the floating-point operations of training, independently of the machine."""

from __future__ import annotations

import math

import torch
from torch.utils.flop_counter import FlopCounterMode

from edge_agent.training.params import LocalTraining
from edge_agent.training.schedule import num_steps
from models.split import Prototype

__all__ = ["forward_flops", "samples_seen", "training_flops"]

BACKWARD = 2  # times the forward pass: gradients of inputs and of weights


def forward_flops(model: Prototype) -> float:
    """Operations of one sample's forward pass; a multiply-add counts as two."""
    example = model.example_input(generator=torch.Generator().manual_seed(0))
    training = model.training
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        model.eval()(example)
    model.train(training)
    return float(counter.get_total_flops())


def samples_seen(training: LocalTraining, examples: int) -> int:
    """Samples processed in one round, with repetitions."""
    per_epoch = max(math.ceil(examples / training.batch_size), 1)
    whole, rest = divmod(num_steps(per_epoch, training), per_epoch)
    return whole * examples + min(rest * training.batch_size, examples)


def training_flops(per_sample: float, training: LocalTraining, examples: int) -> float:
    """Operations of a device's round: forward passes and, at twice the cost, backward passes."""
    return (1 + BACKWARD) * per_sample * samples_seen(training, examples)
