"""Local training guided by generated latents, in torch: FedGen's loss (see `edge_agent/guidance.py`) as an objective.

The real latents and both kinds of generated ones pass the predictor together, once. The three terms are one
cross-entropy with soft targets: with p the model's probabilities, one row of targets for each row of logits,

    real rows       (onehot(y) + b p_generated) / B
    drawn rows      s a onehot(y~) / B_G
    mirrored rows   0                                   they give p_generated

    loss = - sum_rows targets · log p  +  b / B sum p_generated · log p_generated

So a guided step costs little more than a plain one (benchmarks/fedgen_step.py).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from edge_agent.guidance import Guidance
from models.latents import Latents
from models.split import Prototype

__all__ = ["GeneratedObjective"]


class GeneratedObjective:
    """The loss of round `number`; called once per step, in order. `rng` draws labels and noise, the same as light mode.

    Of a device's batch order it takes nothing, so guided and plain training see the same batches.
    """

    def __init__(self, latents: Latents, how: Guidance, number: int, *, rng: np.random.Generator) -> None:
        self._latents, self._how, self._rng = latents, how, rng
        self._a, self._b = how.weights(number)
        self._of_noise, self._of_label, self._out, self._bias = (
            torch.from_numpy(array) for array in (latents.of_noise, latents.of_label, latents.out, latents.bias)
        )
        self._step = 0
        self._rows: dict[int, Tensor] = {}  # weights of the rows (B + B_G, 1) by B: a few sizes at most

    def __call__(self, model: Prototype, x: Tensor, y: Tensor) -> Tensor:
        """The loss of one batch."""
        self._step += 1
        if self._how.steps and self._step > self._how.steps:
            return F.cross_entropy(model(x), y)
        drawn = torch.from_numpy(self._latents.draw_labels(self._how.batch, self._rng))
        generated = self._decode(torch.cat((drawn, y)) if self._b else drawn)
        logits = model.predictor(torch.cat((model.extractor(x), generated)))
        return self._loss(logits.log_softmax(1), torch.cat((y, drawn)), len(y))

    def _loss(self, log_p: Tensor, labels: Tensor, real: int) -> Tensor:
        with torch.no_grad():
            targets = torch.zeros_like(log_p)
            targets[: len(labels)].scatter_(1, labels[:, None], self._row_weights(real))
            if self._b:
                mirrored = log_p[len(labels) :]
                generated = mirrored.exp() * (self._b / real)
                targets[:real] += generated
                constant = torch.dot(generated.view(-1), mirrored.reshape(-1))
        loss = -torch.dot(targets.view(-1), log_p.view(-1))
        return loss + constant if self._b else loss

    def _row_weights(self, real: int) -> Tensor:
        if real not in self._rows:
            drawn = self._how.batch
            a = self._a * (drawn / real if self._how.by_size else 1.0)
            self._rows[real] = torch.tensor([1 / real] * real + [a / drawn] * drawn)[:, None]
        return self._rows[real]

    @torch.no_grad()
    def _decode(self, labels: Tensor) -> Tensor:
        noise = torch.from_numpy(self._latents.draw_noise(len(labels), self._rng))
        hidden = torch.addmm(self._of_label[labels], noise, self._of_noise).relu_()
        return torch.addmm(self._bias, hidden, self._out)
