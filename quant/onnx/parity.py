"""Compare an ONNX graph with its model, also with quantized activations.

Rounding and sign are step functions. A value on a step, up to rounding errors, may fall on either side, and a 1-bit
network has many: the sum of +1s and -1s is often exactly 0. One such value changes the logits by any amount, so
comparing only logits would either refuse good graphs or accept bad ones. Instead the graph is run first, and the model
is forced to follow its levels: if the two fall on different sides, the value must be within PARITY of the step, it is
counted as a tie, and the model continues with the graph's level. Then the logits must agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from core.errors import ModelError
from quant.layers import ActQuant, act_quant
from quant.onnx.session import max_difference, open_session, run_all

__all__ = ["PARITY", "Parity", "check_parity"]

#: The largest difference between torch and ONNX Runtime that is attributed to rounding.
PARITY = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """The difference of a graph from its model on one batch."""

    difference: float  # max |torch - ONNX Runtime| over the logits
    ties: int  # activations on a step that fell on different sides


def check_parity(model: nn.Module, data: bytes, x: Tensor) -> Parity:
    """Compare `model` in evaluation mode with a graph whose outputs are the logits and, in the order in which the
    model calls them, the levels of its quantized activations. More than PARITY is a ModelError."""
    logits, *levels = run_all(open_session(data), x.numpy())
    ours, ties = _led(model, x, levels)
    parity = Parity(difference=max_difference(ours, logits), ties=ties)
    if not parity.difference < PARITY:
        raise ModelError(f"the ONNX graph differs from the model by {parity.difference:.3g}, more than {PARITY}")
    return parity


@dataclass(slots=True)
class _Guide:
    """A forward hook of every quantized activation: swaps in the graph's side of a tie."""

    levels: Iterator[NDArray[Any]]
    ties: list[int] = field(default_factory=list)

    def __call__(self, module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        quant = act_quant(module)
        theirs = next(self.levels, None)
        if quant is None or theirs is None or theirs.shape != tuple(output.shape):
            raise ModelError("the ONNX graph has other quantized activations than the model")
        graph = torch.from_numpy(theirs).to(output.device)
        ours = torch.round(output / quant.scale)
        apart = ours != graph
        if bool((apart & ~_on_a_step(args[0], ours, graph, quant)).any()):
            raise ModelError("the ONNX graph quantizes an activation differently, and not by a rounding error")
        self.ties.append(int(apart.sum()))
        return torch.where(apart, graph * quant.scale, output)


def _on_a_step(x: Tensor, a: Tensor, b: Tensor, quant: ActQuant) -> Tensor:
    """Whether x is within PARITY of the step between the neighbouring levels a and b."""
    gap = 2 if quant.bits == 1 else 1  # 1-bit levels are -1 and 1
    return ((a - b).abs() == gap) & ((x - (a + b) / 2 * quant.scale).abs() < PARITY)


def _led(model: nn.Module, x: Tensor, levels: Sequence[NDArray[Any]]) -> tuple[NDArray[np.float32], int]:
    guide = _Guide(iter(levels))
    with _evaluating(model), torch.no_grad():
        hooks = [m.register_forward_hook(guide) for m in model.modules() if act_quant(m) is not None]
        try:
            device = next((p.device for p in model.parameters()), x.device)
            logits = model(x.to(device)).cpu().numpy()
        finally:
            for hook in hooks:
                hook.remove()
    if len(guide.ties) != len(levels):
        raise ModelError("the ONNX graph has other quantized activations than the model")
    return logits, sum(guide.ties)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode; afterwards every module has the mode it had."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
