"""The losses of FedGen's tables as soft targets of stacked models (see stack.py): columns are samples.

    cross-entropy       onehot(y) / B
    FedGen              real columns + b p_generated / B;  drawn ones s a onehot(y~) / B_G;  mirrored ones 0
    FedDistill          real columns + gamma softmax(T_y) / B

The symbols are those of edge_agent/objectives/fedgen_weights.py and edge_agent/objectives/feddistill.py, which say the
same of one device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from edge_agent.objectives.fedgen_weights import Guidance
from fleet.experiments.fedgen.stack import Targets
from models.latents import Drawer, Latents

__all__ = ["Generated", "cross_entropy", "distilled", "draw_round", "guided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """What the generator gives K users for all S steps of a round."""

    z: Tensor  # (S, K, D, B_G + M): drawn latents, then those that mirror the real labels
    labels: Tensor  # (S, K, B_G), of the drawn ones


def cross_entropy(y: Tensor) -> Targets:
    """Of labels (K, B)."""

    def targets(log_p: Tensor) -> Tensor:
        return torch.zeros_like(log_p).scatter_(1, y[:, None], 1 / y.shape[1])

    return targets


def distilled(y: Tensor, teacher: Tensor, gamma: float) -> Targets:
    """With the fleet's mean logits by label, (C, C)."""
    told = teacher.softmax(1)[y].transpose(1, 2) * (gamma / y.shape[1])  # (K, C, B)

    def targets(log_p: Tensor) -> Tensor:
        return told.scatter_add(1, y[:, None], torch.full_like(y[:, None], 1 / y.shape[1], dtype=told.dtype))

    return targets


def guided(y: Tensor, drawn: Tensor, how: Guidance, number: int) -> Targets:
    """With generated latents, in round `number`; `drawn` (K, B_G) are the labels y~."""
    a, b = how.weights(number)
    batch, generated = y.shape[1], drawn.shape[1]
    weight = a * (generated / batch if how.by_size else 1.0) / generated

    def targets(log_p: Tensor) -> Tensor:
        wanted = torch.zeros_like(log_p)
        end = batch + generated
        wanted[..., :batch].scatter_(1, y[:, None], 1 / batch)
        wanted[..., batch:end].scatter_(1, drawn[:, None], weight)
        if b:
            wanted[..., :batch].add_(log_p[..., end:].exp(), alpha=b / batch)
        return wanted

    return targets


@torch.no_grad()
def draw_round(
    latents: Latents, how: Guidance, number: int, y: Tensor, rngs: Sequence[np.random.Generator]
) -> Generated:
    """Everything generated in a round with real labels y (S, K, B); each user draws by its own generator, as a device
    does."""
    steps, users, batch = y.shape
    mirrors = bool(how.weights(number)[1])
    labels, noise = [], []
    for rng in rngs:
        drawer = Drawer(latents, how.batch, mirrors=mirrors, rng=rng)
        of_steps = [drawer.step(batch) for _ in range(steps)]
        labels.append(np.stack([draws.labels[at] for at, draws in of_steps]))
        noise.append(np.stack([np.concatenate((draws.noise[at], draws.mirrored[at])) for at, draws in of_steps]))
    drawn = torch.from_numpy(np.stack(labels, 1))  # (S, K, B_G)
    asked = torch.cat((drawn, y), 2) if mirrors else drawn
    hidden = torch.from_numpy(np.stack(noise, 1)).flatten(0, 2) @ torch.from_numpy(latents.of_noise)
    hidden = hidden.add_(torch.from_numpy(latents.of_label)[asked.flatten()]).relu_()
    z = torch.addmm(torch.from_numpy(latents.bias), hidden, torch.from_numpy(latents.out))
    return Generated(z=z.view(steps, users, asked.shape[2], -1).transpose(2, 3), labels=drawn)
