"""BatchNorm's running statistics in averages, and FedDF's treatment of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from aggregator.fusion.averages.mean import trusted
from aggregator.fusion.numerics.vectors import is_statistic
from aggregator.fusion.types import State, View

__all__ = ["statistics_of", "statistics_of_last"]


def statistics_of_last(view: View, weights: Sequence[float], average: State) -> State:
    """`average` with the statistics of the last update whose weight is not 0: `bn = "last"`.

    FedDF's code averages parameters only and keeps the statistics of the device with the highest id (Lin et al. 2020,
    arXiv:2006.07242): the weak FedAvg baseline of its Table 2. The default here is their mean.
    """
    states = trusted(view, weights)
    if not len(states) or not any(map(is_statistic, average)):
        return average
    return statistics_of(states[-1], average)


def statistics_of(source: Mapping[str, Tensor], state: State) -> State:
    """`state` with the running statistics of `source` in place of its own."""
    return {name: source[name].clone() if is_statistic(name) else w for name, w in state.items()}
