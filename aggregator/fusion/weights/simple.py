"""Weights without trust: by the number of examples, or equal."""

from __future__ import annotations

from aggregator.fusion.types import View

__all__ = ["examples", "uniform"]


def examples(view: View) -> list[float]:
    """p_k = n_k, as in FedAvg (McMahan et al. 2017, Algorithm 1, arXiv:1602.05629)."""
    return [float(n) for n in view.num_examples]


def uniform(view: View) -> list[float]:
    """p_k = 1, as in FedDF's experiments, whose devices all have the same number of examples."""
    return [1.0] * len(view.updates)
