"""Clipping of a mini-batch's gradient by its L2 norm over all parameters (Pascanu, Mikolov and Bengio 2013).

    g <- g min(1, c / ||g||)

The norm of a linear layer's gradient can be computed without the gradient: with the outputs' gradients g (B, out) and
the inputs a (B, in)

    ||g^T a||_F^2 = sum_ij (g g^T)_ij (a a^T)_ij        two B x B matrices instead of an out x in matrix

(Goodfellow 2015, arXiv:1510.01799, for single examples).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from edge_agent.training.schedule import clip_factor

__all__ = ["Norms", "clip_"]

ALIGNED = 16  # floats
Empty = Callable[[int, int], Tensor]
Multiply = Callable[[Tensor, Tensor, Tensor], object]  # a_k b_k into the third


def clip_(grads: list[Tensor], most: float) -> None:
    """Scale the gradient `grads` in place to a norm of at most `most`."""
    norms = torch.stack(torch._foreach_norm(grads))
    factor = clip_factor(torch.dot(norms, norms).item(), most)
    if factor < 1:
        torch._foreach_mul_(grads, factor)


class Norms:
    """Squared norms of the gradients of K perceptrons, from mini-batches of one size.

    All terms are contiguous, so that a single sum adds them: products of Gram matrices, then gradients and biases'
    gradients, squared in place. Each starts at a multiple of 64 bytes.
    """

    def __init__(self, layers: Sequence[tuple[int, int, bool]], rows: int, empty: Empty, multiply: Multiply) -> None:
        """`layers` are (in, out, whether it has a bias); `empty` allocates (K, m, n) buffers for `multiply`."""
        grams = [_gram_pays(rows, inputs, outputs) for inputs, outputs, _ in layers]
        shapes = [(rows, rows) for gram in grams if gram]
        products = len(shapes)
        shapes += [(outputs, inputs) for (inputs, outputs, _), gram in zip(layers, grams, strict=True) if not gram]
        shapes += [(1, outputs) for _, outputs, bias in layers if bias]
        sizes = [-(-m * n // ALIGNED) * ALIGNED for m, n in shapes]
        self._all = empty(1, sum(sizes)).zero_().squeeze(1)
        self._squared = self._all[:, sum(sizes[:products]) :]
        parts = zip(self._all.split(sizes, 1), shapes, strict=True)
        rooms = [part[:, : m * n].unflatten(1, (m, n)) for part, (m, n) in parts]
        of_gram, of_gradient, of_bias = iter(rooms[:products]), iter(rooms[products:]), iter(rooms[-_biases(layers) :])
        self._layers = [
            (gram, next(of_gram if gram else of_gradient), next(of_bias) if bias else None)
            for gram, (_, _, bias) in zip(grams, layers, strict=True)
        ]
        self._grams = (empty(rows, rows), empty(rows, rows))
        self._multiply = multiply

    def of(self, gs: Sequence[Tensor], inputs: Sequence[Tensor]) -> Tensor:
        """(K,), from the g_l (K, B, out) and the a_l (K, B, in)."""
        for (gram, room, bias), g, a in zip(self._layers, gs, inputs, strict=True):
            if gram:
                first, second = self._grams
                self._multiply(g, g.transpose(1, 2), first)
                self._multiply(a, a.transpose(1, 2), second)
                torch.mul(first, second, out=room)
            else:
                self._multiply(g.transpose(1, 2), a, room)
            if bias is not None:
                torch.sum(g, 1, keepdim=True, out=bias)
        self._squared.square_()
        return self._all.sum(1)


def _biases(layers: Sequence[tuple[int, int, bool]]) -> int:
    return sum(bias for _, _, bias in layers)


def _gram_pays(rows: int, inputs: int, outputs: int) -> bool:
    """Whether B x B matrices take fewer multiplications than the gradient: B (in + out) < in out."""
    return rows * (inputs + outputs) < inputs * outputs
