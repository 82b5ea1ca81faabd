"""Predictors averaged label by label: only devices that have a label contribute to its row."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from aggregator.fusion.averages.mean import keep_previous, mean
from aggregator.fusion.generator.side_artifact import label_counts
from aggregator.fusion.types import State, View

__all__ = ["by_label"]

WEIGHT, BIAS = "predictor.weight", "predictor.bias"


def by_label(view: View, weights: Sequence[float]) -> State:
    """The part `by-label`: the mean, except that row c of the predictor weighs device k by its label counts.

        theta_c = sum_k v_kc theta_kc / sum_k v_kc,     v_kc = w_k count_k(c) / sum_c' count_k(c')

    With w_k = n_k it is count_k(c) itself. A device that never saw label c would only lower that row, and is excluded
    from it. A label that no device has is averaged by w_k.
    """
    if not any(weights):
        return keep_previous(view)
    state = mean(view, weights)
    weighted = [(update, weight) for update, weight in zip(view.updates, weights, strict=True) if weight]
    counts = label_counts([update for update, _ in weighted], len(state[BIAS]))  # (K, C)
    trust = torch.tensor([weight for _, weight in weighted])[:, None]
    shares = _shares(trust * counts / counts.sum(1, keepdim=True).clamp(min=1e-30), trust)
    rows = [update.state() for update, _ in weighted]
    state[WEIGHT] = torch.einsum("kc,kcd->cd", shares, torch.stack([row[WEIGHT].float() for row in rows]))
    state[BIAS] = torch.einsum("kc,kc->c", shares, torch.stack([row[BIAS].float() for row in rows]))
    return state


def _shares(have: Tensor, trust: Tensor) -> Tensor:
    """Columns that sum to 1; for labels that no device has, the normalized weights."""
    total = have.sum(0, keepdim=True)
    return torch.where(total > 0, have / total.clamp(min=1e-30), trust / trust.sum())
