"""Trains K devices of one perceptron prototype as one computation, with one batched matrix product per layer.

    z_k = a_k W_k^T + b_k,   k = 1 .. K        `torch.baddbmm` once, instead of K times `torch.addmm`

Each device has its own mini-batches in its own order and its own dropout masks, as when it trains alone, with
bit-identical results: the formulas are those of `edge_agent/training/fast/perceptron.py`. Devices whose current
mini-batches differ in size (at the end of an epoch) take that step in groups. Only perceptrons: a loop over
convolutions is faster than any way to batch them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, groupby
from typing import cast

import torch
from torch import Tensor, nn

from core.errors import ConfigError, DivergedError
from edge_agent.training.clipping import Norms
from edge_agent.training.fast.perceptron import (
    Layer,
    add_bias_gradient,
    chain_of,
    draw_mask_,
    log_softmax_gradient,
    shapes_of,
)
from edge_agent.training.local_round import dropout_rng
from edge_agent.training.params import LocalTraining
from edge_agent.training.schedule import Trained, clip_factor, schedule
from edge_agent.training.sgd import batches
from fleet.fast.sample_store import Shelf
from quant.binary import BinaryLinear, binarize

__all__ = ["Pupils", "Stack", "size_that_pays", "train_stacked"]

CACHE = 4 * 2**20  # bytes of weights that fit the cache: more devices at once are slower again
MOST = 16
SMALL = 400  # multiplications
ALIGNED = 16  # floats: torch's tensors begin at multiples of 64 bytes
Step = tuple[bool, Tensor] | None  # whether the loss counts, and the samples; None: the device has finished


@dataclass(frozen=True, slots=True)
class Pupils:
    """Devices to train: the samples of all, device by device, and the generators that shuffle them."""

    shelf: Shelf
    rows: Tensor  # rows of the sample store
    y: Tensor
    sizes: Sequence[int]
    generators: Sequence[torch.Generator]


def size_that_pays(model: nn.Module) -> int:
    """The fastest number of devices with `model` to stack; 1: each trains alone."""
    if chain_of(model) is None:
        return 1
    return max(1, min(MOST, CACHE // (4 * sum(p.numel() for p in model.parameters()))))


def train_stacked(model: nn.Module, pupils: Pupils, training: LocalTraining) -> Stack:
    """Train copies of the perceptron `model`, one per device; `model` itself is not changed."""
    sizes = pupils.sizes
    if not all(sizes):
        raise ConfigError("local training: the device has no samples")
    # sorted by size, so that devices with equal batch sizes are mostly adjacent
    order = sorted(range(len(sizes)), key=lambda k: -sizes[k])
    stack = Stack(model, training, order, [dropout_rng(pupils.generators[k]) for k in order])
    for steps in _in_step(pupils, order, training):
        at = 0
        for size, group in groupby(steps, key=lambda step: 0 if step is None else len(step[1])):
            minibatches = cast("list[tuple[bool, Tensor]]", list(group))
            if size:
                chosen = torch.cat([samples for _, samples in minibatches])
                rows, labels = pupils.rows.index_select(0, chosen), pupils.y.index_select(0, chosen)
                stack.step(at, [counts for counts, _ in minibatches], pupils.shelf, rows, labels)
            at += len(minibatches)
    return stack


def _in_step(pupils: Pupils, order: Sequence[int], training: LocalTraining) -> Iterator[list[Step]]:
    """The next mini-batch of every device, until all have finished."""
    starts = [0, *accumulate(pupils.sizes)]

    def of(k: int) -> Iterator[tuple[bool, Tensor]]:
        size, generator = pupils.sizes[k], pupils.generators[k]
        return schedule(lambda: batches(size, training.batch_size, generator, first=starts[k]), training)

    running = [of(k) for k in order]
    while any(steps := [next(one, None) for one in running]):
        yield steps


class Stack:
    """Perceptrons in training, all from the same start; `order` lists their devices.

    `droppers` are the generators of the dropout masks, in that order.
    """

    def __init__(
        self, model: nn.Module, training: LocalTraining, order: Sequence[int], droppers: Sequence[torch.Generator]
    ) -> None:
        layers, count = chain_of(model), len(order)
        assert layers is not None, "a perceptron"
        self._training, self._layers, self._droppers = training, layers, droppers
        self._at = {k: at for at, k in enumerate(order)}
        weights = [layer.linear.weight for layer in layers]
        biases = [cast("nn.Parameter | None", layer.linear.bias) for layer in layers]
        learned = [*weights, *(bias for bias in biases if bias is not None)]
        numbers = iter(range(len(layers), len(learned)))
        self._bias_at = [None if bias is None else next(numbers) for bias in biases]  # in _params
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._names = [names[id(parameter)] for parameter in learned]
        self._start = [parameter.detach() for parameter in learned]
        self._params = [_aligned(count, *p.shape).copy_(p) for p in self._start]
        self._velocity = [_aligned(*p.shape).zero_() for p in self._params] if training.momentum else []
        self._totals = torch.zeros(count, dtype=torch.float64)
        self._counted, self._steps = [0] * count, [0] * count
        self._diverged: dict[int, DivergedError] = {}  # by position in the stack
        self._rooms: dict[tuple[int, int], _Room] = {}
        self._parts: dict[tuple[int, int], _Part] = {}

    def state(self, k: int) -> dict[str, Tensor]:
        """Views of the weights of device `k`, by their names in the model."""
        return {name: stacked[self._at[k]] for name, stacked in zip(self._names, self._params, strict=True)}

    @torch.no_grad()
    def put_into(self, model: nn.Module, k: int) -> None:
        """Copy the weights of device `k` into `model`, of the same architecture."""
        own = dict(model.named_parameters())
        for name, value in self.state(k).items():
            own[name].copy_(value)

    def trained(self, k: int) -> Trained:
        """The training result of device `k`; raises DivergedError if it diverged."""
        at = self._at[k]
        if at in self._diverged:
            raise self._diverged[at]
        return Trained(self._totals[at].item() / max(self._counted[at], 1), self._steps[at], False)

    @torch.no_grad()
    def step(self, first: int, counts: Sequence[bool], shelf: Shelf, chosen: Tensor, labels: Tensor) -> None:
        """One step of the perceptrons from `first` on, each on its own mini-batch, all of one size.

        `chosen` are the samples, device by device; `counts` selects the devices whose losses are accumulated.
        """
        count, rows = len(counts), len(chosen) // len(counts)
        room, part = self._room(count, rows), self._part(first, count)
        shelf.take(chosen, room.x)
        weights = [self._effective(layer, part) for layer in range(len(self._layers))]
        seen = [room.x]  # a_l
        for layer, (weight, z) in enumerate(zip(weights, room.outputs, strict=True)):
            _multiply(seen[-1], weight.transpose(1, 2), z, part.biases[layer], small=room.small[layer])
            seen.append(self._layers[layer].activate_(z))
            if (masks := room.masks[layer]) is not None:
                z.mul_(self._draw_masks(first, masks, self._layers[layer].dropout))
        log_p = torch.log_softmax(seen.pop().flatten(0, 1), 1)
        self._add_losses(first, counts, log_p, labels)
        # the loss is the mean over each device's own mini-batch: `size` is B, not K B
        g = log_softmax_gradient(log_p, labels, room.size).view(count, rows, -1)
        if not room.outputs[-1].is_contiguous():
            g = room.outputs[-1].copy_(g)
        gs = [g]  # g_l, the last one first
        for at in range(len(weights) - 1, 0, -1):
            inward = _multiply(gs[-1], weights[at], room.inward[at - 1], small=room.small[at])
            if (masks := room.masks[at - 1]) is not None:
                inward.mul_(masks)
            self._layers[at - 1].turn_back_(inward, seen[at])
            gs.append(inward)
        gs.reverse()
        if room.norms is not None:
            self._clip(first, gs, room.norms.of(gs, seen))
        for at, own in enumerate(gs):
            self._add_gradient(at, part, own, seen[at], small=room.small[at])
        self._finish(part)

    def _draw_masks(self, first: int, masks: Tensor, p: float) -> Tensor:
        for k, mask in enumerate(masks, first):
            draw_mask_(mask, p, self._droppers[k])
        return masks

    def _clip(self, first: int, gs: list[Tensor], squared: Tensor) -> None:
        """Clip each perceptron's gradient; a non-finite gradient is skipped and marks its device as diverged."""
        factors = []
        for k, value in enumerate(squared.tolist()):
            try:
                factors.append(clip_factor(value, self._training.clip))
            except DivergedError as error:
                self._diverged.setdefault(first + k, error)
                factors.append(1.0)
                for g in gs:
                    g[k].zero_()
        if min(factors) < 1:
            scale = torch.tensor(factors).view(-1, 1, 1)
            for g in gs:
                g.mul_(scale)

    def _room(self, count: int, rows: int) -> _Room:
        room = self._rooms.get((count, rows))
        if room is None:
            room = self._rooms[count, rows] = _Room.of(self._layers, count, rows, clips=self._training.clip > 0)
        return room

    def _part(self, first: int, count: int) -> _Part:
        part = self._parts.get((first, count))
        if part is None:
            mine = slice(first, first + count)
            params, velocity = ([p[mine] for p in tensors] for tensors in (self._params, self._velocity))
            biases = [None if at is None else params[at][:, None] for at in self._bias_at]
            part = self._parts[first, count] = _Part(params, velocity, biases)
        return part

    def _effective(self, layer: int, part: _Part) -> Tensor:
        latent = part.params[layer]
        linear = self._layers[layer].linear
        if not isinstance(linear, BinaryLinear):
            return latent
        weight = _aligned(*latent.shape)
        for own, one in zip(weight, latent, strict=True):
            own.copy_(binarize(one, linear.group_dims))
        return weight

    def _add_losses(self, first: int, counts: Sequence[bool], log_p: Tensor, y: Tensor) -> None:
        sums = log_p.gather(1, y[:, None]).view(len(counts), -1).sum(1)
        if not all(counts):
            sums *= torch.tensor(counts)
        self._totals[first : first + len(counts)].add_(sums, alpha=-len(counts) / len(y))
        for k, counted in enumerate(counts, first):
            self._steps[k] += 1
            self._counted[k] += counted

    def _add_gradient(self, at: int, part: _Part, g: Tensor, a: Tensor, *, small: bool) -> None:
        """Add the gradients of layer `at` to its velocities or, without momentum, to its weights and biases."""
        training = self._training
        if self._velocity:
            beta, alpha = training.momentum, 1.0
        else:
            beta, alpha = 1 - training.lr * (training.weight_decay + training.prox), -training.lr
        moved = part.velocity or part.params
        if small:
            for one, errors, inputs in zip(moved[at], g, a, strict=True):
                one.addmm_(errors.t(), inputs, beta=beta, alpha=alpha)
        else:
            moved[at].baddbmm_(g.transpose(1, 2), a, beta=beta, alpha=alpha)
        if (bias := self._bias_at[at]) is not None:
            add_bias_gradient(moved[bias], g, beta=beta, alpha=alpha)

    def _finish(self, part: _Part) -> None:
        """The terms that do not depend on the mini-batch: proximal term, weight decay, and the step of the velocity."""
        training, params, velocity = self._training, part.params, part.velocity
        received = [p.expand(q.shape) for p, q in zip(self._start, params, strict=True)] if training.prox else []
        if not velocity:
            if training.prox:
                torch._foreach_add_(params, received, alpha=training.lr * training.prox)
            return
        if training.weight_decay or training.prox:
            torch._foreach_add_(velocity, params, alpha=training.weight_decay + training.prox)
        if training.prox:
            torch._foreach_add_(velocity, received, alpha=-training.prox)
        torch._foreach_add_(params, velocity, alpha=-training.lr)


def _multiply(a: Tensor, b: Tensor, out: Tensor, bias: Tensor | None = None, *, small: bool) -> Tensor:
    """a_k b_k + bias_k into `out`."""
    if small:
        for k in range(len(a)):
            out[k] = torch.mm(a[k], b[k]) if bias is None else torch.addmm(bias[k], a[k], b[k])
    elif bias is None:
        torch.bmm(a, b, out=out)
    else:
        torch.baddbmm(bias, a, b, out=out)
    return out


def _multiply_any(a: Tensor, b: Tensor, out: Tensor) -> None:
    _multiply(a, b, out, small=a.shape[1] * a.shape[2] * b.shape[2] < SMALL)


def _aligned(count: int, *shape: int) -> Tensor:
    """A tensor (count, *shape) whose rows are aligned like separate tensors: kernels may round by alignment."""
    stride = -(-math.prod(shape) // ALIGNED) * ALIGNED
    inner = torch.empty(shape, device="meta").stride()
    return torch.empty(count * stride).as_strided((count, *shape), (stride, *inner))


@dataclass(frozen=True, slots=True)
class _Part:
    """Views of the perceptrons that take a step together."""

    params: list[Tensor]
    velocity: list[Tensor]
    biases: list[Tensor | None]  # (K, 1, out) by layer


@dataclass(frozen=True, slots=True)
class _Room:
    """Buffers for mini-batches of one size of a number of devices."""

    x: Tensor
    outputs: list[Tensor]  # z_l
    masks: list[Tensor | None]  # m_l, if there is dropout
    inward: list[Tensor]  # g_l, of all layers but the last
    size: Tensor  # B
    small: list[bool]  # by layer: torch's batched kernel rounds differently from the single one
    norms: Norms | None  # if gradients are clipped

    @classmethod
    def of(cls, layers: Sequence[Layer], count: int, rows: int, *, clips: bool) -> _Room:
        linears = [layer.linear for layer in layers]
        return cls(
            _aligned(count, rows, linears[0].in_features),
            [_aligned(count, rows, linear.out_features) for linear in linears],
            [_aligned(count, rows, layer.linear.out_features) if layer.dropout else None for layer in layers],
            [_aligned(count, rows, linear.in_features) for linear in linears[1:]],
            torch.tensor(float(rows)),
            [rows * linear.in_features * linear.out_features < SMALL for linear in linears],
            Norms(shapes_of(linears), rows, partial(_aligned, count), _multiply_any) if clips else None,
        )
