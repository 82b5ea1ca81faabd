"""FedMA: matched averaging (Wang et al. 2020, arXiv:2002.06440).

The hidden units of a layer have no intrinsic order. Two devices may learn the same features in different units, and
their mean then has neither. So, layer by layer from the input, the units of each device are permuted to match those of
the others:

    pi_k = argmin_pi  sum_i || theta_i - w_k[pi(i)] ||^2       theta: mean of the devices matched before
    w_k[l] <- pi_k w_k[l] pi_k[l-1]^T                          its inputs follow the previous layer

A unit's vector is its incoming weights and bias. The assignment is solved exactly (SciPy), in O(n^3) of the width n.

Implemented from the paper: matching by layer with the Hungarian algorithm, convolutions by channel, the transition from
convolution to linear layer, the weighted mean of matched units, the last layer in the order of its classes. Not
implemented: layers that grow by the Beta-Bernoulli process (widths are fixed, so every unit is matched), several sweeps
over the devices, and FedMA's own rounds, in which devices continue training with the matched layers frozen: here a
round matches all layers at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from aggregator.fusion.averages.mean import keep_previous, trusted
from aggregator.fusion.averages.unit_matching import chain_of, reorder_inputs, reorder_outputs, rows
from aggregator.fusion.types import State, View
from core.errors import RoundError

__all__ = ["align", "best_order", "matched", "matched_mean"]


def matched(view: View, weights: Sequence[float]) -> State:
    """The part `matched`: for prototypes of convolutions and linear layers in sequence, without norms.

    The device with the largest weight is the reference; ties are broken by the order of updates.
    """
    names = chain_of(view.spec)
    missing = [name for name in names if f"{name}.weight" not in view.previous]
    if missing:
        raise RoundError(f"{view.spec}: predictor-only updates cannot be matched; use average 'mean'")
    states = trusted(view, weights)
    return matched_mean(states, [w for w in weights if w > 0], names) if len(states) else keep_previous(view)


def matched_mean(states: Sequence[Mapping[str, Tensor]], weights: Sequence[float], names: Sequence[str]) -> State:
    """The weighted mean of `states`, each aligned to the mean of the previous ones; the heaviest is first.

    Tensors outside the layers `names` (scales of activations) have no units and are averaged without matching.
    """
    total = float(sum(weights))
    mean: State = {}
    for k in sorted(range(len(states)), key=lambda k: -weights[k]):
        state = dict(states[k]) if not mean else align(mean, states[k], names)
        if not mean:
            mean = {name: torch.zeros_like(w, dtype=torch.float32) for name, w in state.items()}
        for name, w in state.items():
            mean[name].add_(w, alpha=weights[k] / total)
    return mean


def align(target: Mapping[str, Tensor], state: Mapping[str, Tensor], names: Sequence[str]) -> State:
    """`state` with the hidden units of every layer permuted to match those of `target`, of any scale."""
    made = dict(state)
    for name, following in pairwise(names):
        order = best_order(rows(target, name), rows(made, name))
        reorder_outputs(made, name, order)
        reorder_inputs(made, following, order)
    return made


def best_order(target: Tensor, units: Tensor) -> Tensor:
    """pi with the smallest sum_i ||target_i - units_pi(i)||^2.

    The squared norms are the same for every order, so this maximizes the sum of products, and the scale of `target`
    does not matter: a partial sum can be used.
    """
    _, order = linear_sum_assignment((target @ units.T).numpy(), maximize=True)
    return torch.from_numpy(order)
