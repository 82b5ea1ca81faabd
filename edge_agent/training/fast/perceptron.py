"""Local training of multilayer perceptrons without autograd: the same numbers in less time, a third for small ones.

For layers  z_l = a_l W_l^T + b_l,  a_{l+1} = m_l phi(z_l)  and the mean cross-entropy of a mini-batch of B:

    g_L = (softmax(z_L) - onehot(y)) / B
    dW_l = g_l^T a_l,   db_l = sum_b g_l,   g_{l-1} = (g_l W_l) * m_{l-1} * phi'(z_{l-1})

phi is the identity, ReLU or LeakyReLU; where m_l is not 0, the sign of a_{l+1} tells phi'. m_l is dropout's mask, 0 or
1 / (1 - p), drawn from torch's random state by the call that `torch.nn.Dropout` makes, so that masks are the plain
path's; without dropout it is 1. For another loss of logits and labels autograd gives g_L, of the logits alone.

Without momentum the gradient is not stored; `W.addmm_` adds it directly to the weight:

    W <- (1 - eta (lambda + mu)) W + eta mu W_received - eta g^T a

A 1-bit layer computes with its binarized weight, and its gradient is applied to the latent weight (`quant/binary.py`).
With clipping, all g_l are scaled by the same factor (`edge_agent/training/clipping.py`) before any weight is updated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edge_agent.training.clipping import Norms
from edge_agent.training.params import LocalTraining
from edge_agent.training.schedule import clip_factor
from edge_agent.training.trainer import LossFunction
from models.split import Extractor, Prototype
from models.zoo.mlp import MLP
from quant.binary import BinaryLinear

__all__ = [
    "Chain",
    "Layer",
    "add_bias_gradient",
    "chain_of",
    "draw_mask_",
    "learns_here",
    "log_softmax_gradient",
    "shapes_of",
]

_ONE = torch.ones(())
_nll_backward = torch.ops.aten.nll_loss_backward.default  # calling an explicit overload is faster
_LINEAR = (nn.Linear, BinaryLinear)
_KNOWN = (Prototype, Extractor, MLP)


@dataclass(frozen=True, slots=True)
class Layer:
    """A linear layer of a perceptron, and what comes after it."""

    linear: nn.Linear
    slope: float | None = None  # of its activation below zero: 0 is ReLU; None: it has none
    dropout: float = 0.0  # p, after the activation

    def activate_(self, z: Tensor) -> Tensor:
        """phi(z), in place."""
        if self.slope is None:
            return z
        return F.leaky_relu_(z, self.slope) if self.slope else z.relu_()

    def turn_back_(self, g: Tensor, a: Tensor) -> None:
        """g phi'(z), in place, from the outputs `a`, dropped ones among them: their gradient is 0 already."""
        if self.slope:
            torch.ops.aten.leaky_relu_backward.grad_input(g, a, self.slope, True, grad_input=g)
        elif self.slope is not None:
            torch.ops.aten.threshold_backward.grad_input(g, a, 0, grad_input=g)


def chain_of(model: nn.Module) -> list[Layer] | None:
    """The layers of `model`, if it consists only of trainable linear layers, activations and dropout."""
    layers: list[Layer] = []
    for module in _steps(model):
        if module is None or module._forward_hooks or module._forward_pre_hooks:
            return None
        if type(module) in _LINEAR:
            assert isinstance(module, nn.Linear)
            layers.append(Layer(module))
        elif not _does_nothing(module, first=not layers):
            followed = _followed(layers[-1], module) if layers else None
            if followed is None:
                return None
            layers[-1] = followed
    learned = [p for layer in layers for p in layer.linear.parameters()]
    own = list(model.parameters())
    if (
        not layers
        or layers[-1] != Layer(layers[-1].linear)
        or len(own) != len(learned)
        or not all(map(learns_here, own))
    ):
        return None
    return None if any(getattr(layer.linear, "weight_frozen", False) for layer in layers) else layers


def _steps(model: nn.Module) -> Iterator[nn.Module | None]:
    """The modules that `forward` applies one after another; None if unknown."""
    if type(model) is nn.Sequential:
        for module in model:
            yield from _steps(module)
    elif type(model) in _KNOWN:  # not subclasses, whose forward may differ
        assert isinstance(model, (Prototype, Extractor, MLP))
        for module in model.steps():
            yield from _steps(module)
    else:
        yield model if not list(model.children()) else None


def _followed(layer: Layer, module: nn.Module) -> Layer | None:
    """`layer` with `module` after it; None where that is no layer."""
    if layer.dropout:
        return None
    if type(module) is nn.Dropout and 0 < module.p < 1:
        return replace(layer, dropout=module.p)
    slope = _slope(module)
    return replace(layer, slope=slope) if layer.slope is None and slope is not None else None


def _slope(module: nn.Module) -> float | None:
    if type(module) is nn.ReLU:
        return 0.0
    return module.negative_slope if type(module) is nn.LeakyReLU and module.negative_slope >= 0 else None


def _does_nothing(module: nn.Module, *, first: bool) -> bool:
    flattens = type(module) is nn.Flatten and first and (module.start_dim, module.end_dim) == (1, -1)
    return flattens or type(module) is nn.Identity or (type(module) is nn.Dropout and module.p == 0)


def learns_here(parameter: Tensor) -> bool:
    """Whether it is trainable, float32 and on the CPU."""
    return parameter.requires_grad and parameter.dtype == torch.float32 and parameter.device.type == "cpu"


class Chain:
    """A perceptron in training; `step` updates its weights."""

    def __init__(self, layers: Sequence[Layer], how: LocalTraining, loss_fn: LossFunction = F.cross_entropy) -> None:
        self._how, self._layers = how, layers
        self._loss_fn = None if loss_fn is F.cross_entropy else loss_fn
        self._linears = [layer.linear for layer in layers]
        weights = [linear.weight.detach() for linear in self._linears]
        biases = [cast("Tensor | None", linear.bias) for linear in self._linears]
        self._biases = [None if bias is None else bias.detach() for bias in biases]
        self._params = [*weights, *(bias for bias in self._biases if bias is not None)]
        numbers = iter(range(len(layers), len(self._params)))
        self._bias_at = [None if bias is None else next(numbers) for bias in self._biases]  # in _params
        self._received = [p.clone() for p in self._params] if how.prox else []
        self._velocity = [torch.zeros_like(p) for p in self._params] if how.momentum else []
        self._binary = any(isinstance(linear, BinaryLinear) for linear in self._linears)
        self._weights = [(w, w.t()) for w in weights]
        self._rooms: dict[int, _Room] = {}

    @torch.no_grad()
    def step(self, x: Tensor, y: Tensor, total: Tensor | None) -> None:
        """One step on a mini-batch x (B, ...), y (B,); its mean loss is added to `total`."""
        room = self._rooms.get(len(x))
        if room is None:
            room = self._rooms[len(x)] = _Room.of(self._layers, len(x), clips=self._how.clip > 0)
        weights = [_both_ways(linear) for linear in self._linears] if self._binary else self._weights
        seen = [x.flatten(1)]  # a_l
        for at, layer in enumerate(self._layers):
            (_, turned), bias, z = weights[at], self._biases[at], room.outputs[at]
            if bias is None:
                torch.mm(seen[-1], turned, out=z)
            else:
                torch.addmm(bias, seen[-1], turned, out=z)
            seen.append(layer.activate_(z))
            if (mask := room.masks[at]) is not None:
                z.mul_(draw_mask_(mask, layer.dropout))
        gs = [self._of_logits(seen.pop(), y, total, room.size)]  # g_l, the last one first
        for at in range(len(weights) - 1, 0, -1):
            inward = torch.mm(gs[-1], weights[at][0], out=room.inward[at - 1])
            if (mask := room.masks[at - 1]) is not None:
                inward.mul_(mask)
            self._layers[at - 1].turn_back_(inward, seen[at])
            gs.append(inward)
        gs.reverse()
        if room.norms is not None:
            self._clip(room.norms, gs, seen)
        for at, g in enumerate(gs):
            self._add_gradient(at, g, seen[at])
        self._finish()

    def _of_logits(self, logits: Tensor, y: Tensor, total: Tensor | None, size: Tensor) -> Tensor:
        """g_L; the loss is added to `total`."""
        if self._loss_fn is None:
            log_p = torch.log_softmax(logits, 1)
            if total is not None:
                total.add_(log_p.gather(1, y[:, None]).view(1, -1).sum(1)[0], alpha=-1 / len(y))
            return log_softmax_gradient(log_p, y, size)
        with torch.enable_grad():
            z = logits.detach().requires_grad_()
            loss = self._loss_fn(z, y)
            (g,) = torch.autograd.grad(loss, z)
        if total is not None:
            total.add_(loss.detach())
        return g

    def _clip(self, norms: Norms, gs: list[Tensor], seen: list[Tensor]) -> None:
        squared = norms.of([g[None] for g in gs], [a[None] for a in seen])
        factor = clip_factor(squared.item(), self._how.clip)
        if factor < 1:
            torch._foreach_mul_(gs, factor)

    def _add_gradient(self, at: int, g: Tensor, a: Tensor) -> None:
        """Add the gradient of layer `at` to its velocity or, without momentum, to its weight and bias."""
        how = self._how
        beta, alpha = (how.momentum, 1.0) if self._velocity else (1 - how.lr * (how.weight_decay + how.prox), -how.lr)
        moved = self._velocity or self._params
        moved[at].addmm_(g.t(), a, beta=beta, alpha=alpha)
        if (bias := self._bias_at[at]) is not None:
            add_bias_gradient(moved[bias], g, beta=beta, alpha=alpha)

    def _finish(self) -> None:
        """The part independent of the mini-batch: proximal term, weight decay, and the momentum step."""
        how = self._how
        if not self._velocity:
            if how.prox:
                torch._foreach_add_(self._params, self._received, alpha=how.lr * how.prox)
            return
        if how.weight_decay or how.prox:
            torch._foreach_add_(self._velocity, self._params, alpha=how.weight_decay + how.prox)
        if how.prox:
            torch._foreach_add_(self._velocity, self._received, alpha=-how.prox)
        torch._foreach_add_(self._params, self._velocity, alpha=-how.lr)


@dataclass(frozen=True, slots=True)
class _Room:
    """Buffers for mini-batches of one size."""

    outputs: list[Tensor]  # z_l
    masks: list[Tensor | None]  # m_l, where there is dropout
    inward: list[Tensor]  # g_l, of all layers but the last
    size: Tensor  # B
    norms: Norms | None  # if gradients are clipped

    @classmethod
    def of(cls, layers: Sequence[Layer], rows: int, *, clips: bool) -> _Room:
        linears = [layer.linear for layer in layers]
        masks = [torch.empty(rows, layer.linear.out_features) if layer.dropout else None for layer in layers]
        outputs = [torch.empty(rows, linear.out_features) for linear in linears]
        inward = [torch.empty(rows, linear.in_features) for linear in linears[1:]]
        norms = Norms(shapes_of(linears), rows, partial(torch.empty, 1), _multiply) if clips else None
        return cls(outputs, masks, inward, torch.tensor(float(rows)), norms)


def shapes_of(linears: Sequence[nn.Linear]) -> list[tuple[int, int, bool]]:
    """In, out, and whether there is a bias."""
    return [(linear.in_features, linear.out_features, linear.bias is not None) for linear in linears]


def _multiply(a: Tensor, b: Tensor, out: Tensor) -> None:
    """Like `torch.bmm` of one perceptron, whose kernel for small matrices rounds differently."""
    torch.mm(a[0], b[0], out=out[0])


def _both_ways(linear: nn.Linear) -> tuple[Tensor, Tensor]:
    weight = linear.effective_weight() if isinstance(linear, BinaryLinear) else linear.weight.detach()
    return weight, weight.t()


def draw_mask_(mask: Tensor, p: float, generator: torch.Generator | None = None) -> Tensor:
    """`mask` anew, 0 with probability p and 1 / (1 - p) otherwise, by the draws of `torch.nn.Dropout`."""
    return mask.bernoulli_(1 - p, generator=generator).div_(1 - p)


def log_softmax_gradient(log_p: Tensor, y: Tensor, size: Tensor) -> Tensor:
    """(softmax(z) - onehot(y)) / B, from log softmax(z) and B."""
    g = _nll_backward(_ONE, log_p, y, None, 1, -100, size)
    return torch._log_softmax_backward_data(g, log_p, 1, torch.float32)


def add_bias_gradient(bias: Tensor, g: Tensor, *, beta: float, alpha: float) -> None:
    """beta b + alpha sum_b g_b, in place; for one perceptron or, with one dimension more, for several."""
    if beta != 1:
        bias.mul_(beta)
    bias.add_(g.sum(-2), alpha=alpha)
