"""Devices of one prototype as one computation: K perceptrons side by side, one matrix product for all of them.

    z_k = a_k W_k^T + b_k,   k = 1 .. K        `torch.baddbmm` once, instead of K times `torch.addmm`

Each device has its own mini-batches in its own order, as when it trains alone, and comes to the same bits: the formulas
are those of `edge_agent/backprop.py`. Devices that are at mini-batches of different sizes (at the end of an epoch) take
that step in groups. Only perceptrons: a loop over convolutions is faster than any way to batch them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edge_agent.backprop import Layer, chain_of
from edge_agent.hyper import LocalTraining
from edge_agent.schedule import Trained, schedule
from edge_agent.train import batches
from quant.binary import BinaryLinear, binarize
from wire.errors import ConfigError

__all__ = ["Pupil", "Stack", "size_that_pays", "train_stacked"]

CACHE = 4 * 2**20  # bytes of weights that stay near the core: more devices at once are slower again
MOST = 16
SMALL = 400  # multiplications
_ONE = torch.ones(())
Step = tuple[bool, Tensor] | None  # whether the loss counts, and the samples; None: the device is done


@dataclass(frozen=True, slots=True)
class Pupil:
    """A device that is about to train: its samples, and what shuffles them."""

    x: Tensor
    y: Tensor
    generator: torch.Generator


def size_that_pays(model: nn.Module) -> int:
    """How many devices with `model` are trained best as one computation; 1: each alone."""
    if chain_of(model) is None:
        return 1
    return max(1, min(MOST, CACHE // (4 * sum(p.numel() for p in model.parameters()))))


def train_stacked(model: nn.Module, pupils: Sequence[Pupil], how: LocalTraining) -> tuple[Stack, list[Trained]]:
    """Train copies of the perceptron `model`, one per pupil, which is left as it is."""
    layers = chain_of(model)
    assert layers is not None, "a perceptron"
    if not all(len(pupil.x) for pupil in pupils):
        raise ConfigError("local training: the device has no samples")
    # by size: who shares a batch size then mostly stands together
    order = sorted(range(len(pupils)), key=lambda k: -len(pupils[k].x))
    stack = Stack(layers, how, order)
    for steps in _in_step([pupils[k] for k in order], how):
        at = 0
        for rows, group in groupby(steps, key=lambda step: 0 if step is None else len(step[1])):
            count = len(list(group))
            if rows:
                given = [(pupils[order[k]], cast("tuple[bool, Tensor]", steps[k])) for k in range(at, at + count)]
                stack.step(at, given)
            at += count
    return stack, [stack.trained(k) for k in range(len(pupils))]


def _in_step(pupils: Sequence[Pupil], how: LocalTraining) -> Iterator[list[Step]]:
    """The next mini-batch of everybody, until all are done."""

    def of(pupil: Pupil) -> Iterator[tuple[bool, Tensor]]:
        return schedule(lambda: batches(len(pupil.x), how.batch_size, pupil.generator), how)

    running = [of(pupil) for pupil in pupils]
    while any(steps := [next(one, None) for one in running]):
        yield steps


class Stack:
    """Perceptrons in training, all from the same start; `order` says whose the first is, the second, …"""

    def __init__(self, layers: Sequence[Layer], how: LocalTraining, order: Sequence[int]) -> None:
        count = len(order)
        self._how, self._layers = how, layers
        self._at = {k: at for at, k in enumerate(order)}
        biases = [cast("Tensor | None", layer.linear.bias) for layer in layers]
        self._start = [layer.linear.weight.detach() for layer in layers]
        self._start += [bias.detach() for bias in biases if bias is not None]
        numbers = iter(range(len(layers), len(self._start)))
        self._bias_at = [None if bias is None else next(numbers) for bias in biases]  # in _params
        self._params = [p.expand(count, *p.shape).clone() for p in self._start]
        self._velocity = [torch.zeros_like(p) for p in self._params] if how.momentum else []
        self._totals = torch.zeros(count, dtype=torch.float64)
        self._counted, self._steps = [0] * count, [0] * count
        self._rooms: dict[tuple[int, int], _Room] = {}

    def put_into(self, model: nn.Module, k: int) -> None:
        """Give `model`, of the same kind, the weights of pupil `k`."""
        layers = chain_of(model)
        assert layers is not None, "a perceptron"
        with torch.no_grad():
            for number, layer in enumerate(layers):
                layer.linear.weight.copy_(self._params[number][self._at[k]])
                if (bias := self._bias_at[number]) is not None:
                    layer.linear.bias.copy_(self._params[bias][self._at[k]])

    def trained(self, k: int) -> Trained:
        """How the training of pupil `k` went."""
        at = self._at[k]
        return Trained(self._totals[at].item() / max(self._counted[at], 1), self._steps[at], False)

    @torch.no_grad()
    def step(self, first: int, given: Sequence[tuple[Pupil, tuple[bool, Tensor]]]) -> None:
        """One step of the perceptrons from `first` on, each on its own mini-batch; all of these are of one size."""
        count, rows = len(given), len(given[0][1][1])
        room = self._rooms.get((count, rows))
        if room is None:
            room = self._rooms[count, rows] = _Room.of(self._layers, count, rows)
        for k, (pupil, (_, chosen)) in enumerate(given):
            torch.index_select(pupil.x.flatten(1), 0, chosen, out=room.x[k])
            torch.index_select(pupil.y, 0, chosen, out=room.y[k])
        mine = slice(first, first + count)
        weights = [self._effective(number, mine) for number in range(len(self._layers))]
        seen = [room.x]  # a_l
        for weight, bias_at, layer, z in zip(weights, self._bias_at, self._layers, room.outputs, strict=True):
            _multiply(seen[-1], weight.transpose(1, 2), z, None if bias_at is None else self._params[bias_at][mine])
            seen.append(z.relu_() if layer.relu else z)
        log_p = torch.log_softmax(seen.pop().flatten(0, 1), 1)
        self._add_losses(first, given, log_p.view(count, rows, -1), room.y)
        # the mean is that of each device's own mini-batch: `size` is B, not K B
        g = torch.ops.aten.nll_loss_backward(_ONE, log_p, room.y.flatten(), None, 1, -100, room.size)
        g = torch._log_softmax_backward_data(g, log_p, 1, torch.float32).view(count, rows, -1)
        for at in range(len(weights) - 1, -1, -1):
            inward = None
            if at:  # before the layer's own weight moves
                inward = _multiply(g, weights[at], room.inward[at - 1])
                if self._layers[at - 1].relu:
                    torch.ops.aten.threshold_backward.grad_input(inward, seen[at], 0, grad_input=inward)
            self._add_gradient(at, mine, g.transpose(1, 2), seen[at], room.ones)
            if inward is not None:
                g = inward
        self._finish(mine)

    def _effective(self, number: int, mine: slice) -> Tensor:
        latent = self._params[number][mine]
        linear = self._layers[number].linear
        if not isinstance(linear, BinaryLinear):
            return latent
        return torch.stack([binarize(one, linear.group_dims) for one in latent])

    def _add_losses(
        self, first: int, given: Sequence[tuple[Pupil, tuple[bool, Tensor]]], log_p: Tensor, y: Tensor
    ) -> None:
        for k, (_, (counts, _)) in enumerate(given):
            self._steps[first + k] += 1
            if counts:
                self._counted[first + k] += 1
                self._totals[first + k].add_(F.nll_loss(log_p[k], y[k]))

    def _add_gradient(self, at: int, mine: slice, g: Tensor, a: Tensor, ones: Tensor) -> None:
        """Add the gradients of layer `at` to its velocities or, without momentum, to its weights and biases."""
        how = self._how
        beta, alpha = (how.momentum, 1.0) if self._velocity else (1 - how.lr * (how.weight_decay + how.prox), -how.lr)
        moved = self._velocity or self._params
        if _small(g, a):
            for one, own, inputs in zip(moved[at][mine], g, a, strict=True):
                one.addmm_(own, inputs, beta=beta, alpha=alpha)
        else:
            moved[at][mine].baddbmm_(g, a, beta=beta, alpha=alpha)
        if (bias := self._bias_at[at]) is not None:
            for one, own in zip(moved[bias][mine], g, strict=True):
                one.addmv_(own, ones, beta=beta, alpha=alpha)

    def _finish(self, mine: slice) -> None:
        """What is not the mini-batch's: the pull to the received weights and to 0, and the velocity's step."""
        how = self._how
        params = [p[mine] for p in self._params]
        received = [p.expand(q.shape) for p, q in zip(self._start, params, strict=True)] if how.prox else []
        if not self._velocity:
            if how.prox:
                torch._foreach_add_(params, received, alpha=how.lr * how.prox)
            return
        velocity = [v[mine] for v in self._velocity]
        if how.weight_decay or how.prox:
            torch._foreach_add_(velocity, params, alpha=how.weight_decay + how.prox)
        if how.prox:
            torch._foreach_add_(velocity, received, alpha=-how.prox)
        torch._foreach_add_(params, velocity, alpha=-how.lr)


def _small(a: Tensor, b: Tensor) -> bool:
    """Whether torch multiplies by a kernel of its own, which rounds otherwise than that of single matrices."""
    return a.shape[1] * a.shape[2] * b.shape[2] < SMALL


def _multiply(a: Tensor, b: Tensor, out: Tensor, bias: Tensor | None = None) -> Tensor:
    """a_k b_k + bias_k into `out`."""
    if _small(a, b):
        for k in range(len(a)):
            out[k] = torch.mm(a[k], b[k]) if bias is None else torch.addmm(bias[k], a[k], b[k])
    elif bias is None:
        torch.bmm(a, b, out=out)
    else:
        torch.baddbmm(bias[:, None], a, b, out=out)
    return out


@dataclass(frozen=True, slots=True)
class _Room:
    """Where mini-batches of one size are computed, of so many devices."""

    x: Tensor
    y: Tensor
    outputs: list[Tensor]  # z_l
    inward: list[Tensor]  # g_l, of all layers but the last
    ones: Tensor
    size: Tensor  # B

    @classmethod
    def of(cls, layers: Sequence[Layer], count: int, rows: int) -> _Room:
        linears = [layer.linear for layer in layers]
        return cls(
            torch.empty(count, rows, linears[0].in_features),
            torch.empty(count, rows, dtype=torch.int64),
            [torch.empty(count, rows, linear.out_features) for linear in linears],
            [torch.empty(count, rows, linear.in_features) for linear in linears[1:]],
            torch.ones(rows),
            torch.tensor(float(rows)),
        )
