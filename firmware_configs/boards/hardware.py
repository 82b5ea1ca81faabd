"""Speed and power of a board: the table [hardware] of its profile, which the virtual time of simulations reads.

These are estimates, good for comparing fleets and deadlines, not measurements of a board: gflops is a quarter to a half
of what published GEMM benchmarks reach in fp32 on all cores (or on the GPU), because small networks in small batches do
not come near them; watts are of the whole board under load, from vendors' data sheets and published measurements;
start_s is what the training process takes until it trains; rates are those of a good Wi-Fi or a wired line.
"""

from __future__ import annotations

from typing import Annotated

from core.settings import Settings, within

__all__ = ["Hardware"]

Positive = Annotated[float, within(1e-6, 1e9)]


class Hardware(Settings, frozen=True, kw_only=True):
    """Speed and power of one kind of board."""

    start_s: Positive  # start-up of the training process
    gflops: Positive  # sustained in training, in 1e9 operations per second
    up_mbps: Positive
    down_mbps: Positive
    train_watts: Positive  # of the whole board in training,
    radio_watts: Positive  # while it sends or receives,
    idle_watts: Positive  # and while idle
