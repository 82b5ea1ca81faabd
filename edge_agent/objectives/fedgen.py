"""Local training guided by generated latents, in torch: FedGen's loss (see `fedgen_weights.py`) as an objective.

The real latents and both kinds of generated ones pass the predictor together, once. The three terms are one
cross-entropy with soft targets: with p the model's probabilities, one row of targets for each row of logits,

    real rows       (onehot(y) + b p_generated) / B
    drawn rows      s a onehot(y~) / B_G
    mirrored rows   0                                   they give p_generated

    loss = - sum_rows targets · log p  +  b / B sum p_generated · log p_generated

So a guided step costs little more than a plain one (benchmarks/fedgen_step.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from edge_agent.objectives.fedgen_weights import Guidance
from models.compute_device import CPU, widened
from models.latents import Drawer, Draws, Latents
from models.split import Prototype

__all__ = ["GeneratedObjective"]


class GeneratedObjective:
    """The loss of round `number`; called once per step, in order. `rng` draws labels and noise, as in light mode.

    It does not affect the batch order, so guided and plain training see the same batches. The draws of a few steps are
    moved to `device` at once.
    """

    def __init__(
        self, latents: Latents, how: Guidance, number: int, *, rng: np.random.Generator, device: torch.device = CPU
    ) -> None:
        self._how, self._steps, self._device = how, 0, device
        self._a, self._b = how.weights(number)
        self._drawer = Drawer(latents, how.batch, mirrors=bool(self._b), rng=rng)
        self._of_noise, self._of_label, self._out, self._bias = (
            self._tensor(array) for array in (latents.of_noise, latents.of_label, latents.out, latents.bias)
        )
        self._block: _Block | None = None
        self._rows: dict[int, Tensor] = {}  # weights of real rows (B, 1) by B: a few sizes at most

    def __call__(self, model: Prototype, x: Tensor, y: Tensor) -> Tensor:
        """The loss of one batch."""
        self._steps += 1
        if self._how.steps and self._steps > self._how.steps:
            return F.cross_entropy(widened(model(x)), y)
        at, draws = self._drawer.step(len(y))
        if self._block is None or self._block.draws is not draws:
            self._block = self._decoded(draws)
        generated = [self._block.drawn[at]]
        if self._b:
            generated.append(self._mirrored(self._block.mirrored[at, : len(y)], y))
        logits = model.predictor(torch.cat((model.extractor(x), *generated)))
        return self._loss(widened(logits).log_softmax(1), y, self._block.targets[at])

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    def _loss(self, log_p: Tensor, y: Tensor, drawn: Tensor) -> Tensor:
        real, end = len(y), len(y) + len(drawn)
        with torch.no_grad():
            targets = torch.zeros_like(log_p)
            targets[:real].scatter_(1, y[:, None], self._row_weights(real))
            targets[real:end] = drawn if not self._how.by_size else drawn * (len(drawn) / real)
            if self._b:
                mirrored = log_p[end:]
                generated = mirrored.exp().mul_(self._b / real)
                targets[:real] += generated
                constant = torch.dot(generated.view(-1), mirrored.reshape(-1))
        loss = -torch.dot(targets.view(-1), log_p.view(-1))
        return loss + constant if self._b else loss

    def _row_weights(self, real: int) -> Tensor:
        if real not in self._rows:
            self._rows[real] = torch.full((real, 1), 1 / real, device=self._device)
        return self._rows[real]

    @torch.no_grad()
    def _decoded(self, draws: Draws) -> _Block:
        """Everything that does not depend on the real batch, for a block of steps at once."""
        labels, noise = self._tensor(draws.labels), self._tensor(draws.noise)
        hidden = torch.addmm(self._of_label[labels.flatten()], noise.flatten(0, 1), self._of_noise).relu_()
        targets = torch.zeros(*labels.shape, len(self._of_label), device=self._device)
        targets.scatter_(2, labels[:, :, None], self._a / labels.shape[1])
        return _Block(
            draws=draws,
            drawn=torch.addmm(self._bias, hidden, self._out).view(*labels.shape, -1),
            targets=targets,
            mirrored=self._tensor(draws.mirrored) @ self._of_noise,
        )

    @torch.no_grad()
    def _mirrored(self, hidden: Tensor, y: Tensor) -> Tensor:
        return torch.addmm(self._bias, self._of_label[y].add_(hidden).relu_(), self._out)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Draws of a few steps, as far as they can be computed before the real batches are known."""

    draws: Draws
    drawn: Tensor  # (K, B_G, D)
    targets: Tensor  # (K, B_G, C): a onehot(y~) / B_G
    mirrored: Tensor  # (K, M, H): N' eps
