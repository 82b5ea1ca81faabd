"""Local training of a predictor in NumPy, on a frozen extractor: for boards without the memory for torch.

The extractor runs once per sample and round (`edge_agent/light/extractor.py`); the rest is softmax regression on its
latents z, with the same steps as `edge_agent/training/sgd.py` and, with a generator, the same loss as
`edge_agent/objectives/fedgen.py`. The gradient of a cross-entropy with soft targets t, of row sums r, is r p - t.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from core.errors import ConfigError
from edge_agent.light.predictor import LightPredictor
from edge_agent.objectives.fedgen_weights import Guidance
from edge_agent.training.params import LocalTraining
from edge_agent.training.schedule import Trained, clip_factor, schedule
from models.latents import Drawer, Latents

__all__ = ["GeneratedTerm", "light_batches", "train_predictor"]

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]


class GeneratedTerm:
    """A received generator and its weights in round `number`; called once per step, in order."""

    def __init__(self, latents: Latents, guidance: Guidance, number: int, *, rng: np.random.Generator) -> None:
        self.latents, self.guidance = latents, guidance
        self.weights = guidance.weights(number)
        self._drawer = Drawer(latents, guidance.batch, mirrors=bool(self.weights[1]), rng=rng)

    def step(self, y: Labels) -> tuple[Floats, Labels]:
        """Latents for the next step, drawn ones and then mirrored ones, and the labels of the drawn ones."""
        at, draws = self._drawer.step(len(y))
        drawn = draws.labels[at]
        if not self.weights[1]:
            return self.latents.decode(draws.noise[at], drawn), drawn
        noise = np.concatenate((draws.noise[at], draws.mirrored[at, : len(y)]))
        return self.latents.decode(noise, np.concatenate((drawn, y))), drawn


def light_batches(n: int, batch_size: int, rng: np.random.Generator) -> Iterator[Labels]:
    """Indices of one epoch, reshuffled; a last batch of one sample is skipped, as with BatchNorm."""
    order = rng.permutation(n)
    for start in range(0, n, batch_size):
        chosen = order[start : start + batch_size]
        if len(chosen) > 1 or n == 1 or batch_size == 1:
            yield chosen


def train_predictor(
    predictor: LightPredictor,
    z: Floats,
    y: Labels,
    training: LocalTraining,
    *,
    epoch: Callable[[], Iterator[Labels]],
    generated: GeneratedTerm | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Trained:
    """Train `predictor` in place on latents `z` (N, D) and labels `y`; `epoch` returns an epoch's batches of indices.

    w <- w - eta * v,  v <- beta * v + clipped(grad) + lambda * w + mu * (w - w_received)
    """
    if len(z) == 0:
        raise ConfigError("local training: the device has no samples")
    params = predictor.params
    received = [p.copy() for p in params] if training.prox else []
    velocity = [np.zeros_like(p) for p in params] if training.momentum else []
    total, counted, steps = 0.0, 0, 0
    for counts, chosen in schedule(epoch, training):
        if should_stop():
            return Trained(total / max(counted, 1), steps, True)
        loss, grads = _loss(predictor, z[chosen], y[chosen], generated, steps)
        if training.clip:
            _clip(grads, training.clip)
        _step(params, grads, velocity, received, training)
        steps += 1
        if counts:
            total, counted = total + loss, counted + 1
    return Trained(total / max(counted, 1), steps, False)


def _loss(
    predictor: LightPredictor, z: Floats, y: Labels, term: GeneratedTerm | None, step: int
) -> tuple[float, list[Floats]]:
    """The loss of one batch and its gradients."""
    real, labels, rows, b = len(y), y, np.full(len(y), 1 / len(y), np.float32), 0.0
    if term is not None and (not term.guidance.steps or step < term.guidance.steps):
        guidance, (a, b) = term.guidance, term.weights
        generated, drawn = term.step(y)
        z, labels = np.concatenate((z, generated)), np.concatenate((y, drawn))
        a *= guidance.batch / real if guidance.by_size else 1.0
        rows = np.concatenate((rows, np.full(guidance.batch, a / guidance.batch, np.float32)))
    log_p = _log_softmax(predictor.logits(z))
    p = np.exp(log_p)
    end = len(labels)
    targets = np.zeros_like(log_p)
    targets[np.arange(end), labels] = rows
    constant = 0.0
    if b:
        generated = p[end:] * np.float32(b / real)
        targets[:real] += generated
        constant = float(np.vdot(generated, log_p[end:]))
    loss = constant - float(np.vdot(targets, log_p))
    return loss, predictor.gradients(z, p * targets.sum(1, keepdims=True) - targets)


def _log_softmax(logits: Floats) -> Floats:
    shifted: Floats = logits - logits.max(1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(1, keepdims=True))
    return shifted


def _clip(grads: list[Floats], most: float) -> None:
    """g <- g min(1, c / ||g||)."""
    factor = clip_factor(sum(float(np.vdot(grad, grad)) for grad in grads), most)
    if factor < 1:
        for grad in grads:
            grad *= np.float32(factor)


def _step(
    params: list[Floats], grads: list[Floats], velocity: list[Floats], received: list[Floats], training: LocalTraining
) -> None:
    for i, (w, grad) in enumerate(zip(params, grads, strict=True)):
        if training.weight_decay:
            grad += np.float32(training.weight_decay) * w
        if received:
            grad += np.float32(training.prox) * (w - received[i])
        if velocity:
            velocity[i] *= np.float32(training.momentum)
            velocity[i] += grad
            grad = velocity[i]
        w -= np.float32(training.lr) * grad
