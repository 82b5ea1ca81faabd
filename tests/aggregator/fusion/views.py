"""Rounds of tiny updates, as parts see them."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from aggregator.fusion.types import Memory, Received, Server, View
from models.spec import PrototypeSpec
from quant.precision import FP32

SPEC = PrototypeSpec("mlp", FP32, (2,), 2)


def received(device: str, state: Mapping[str, torch.Tensor], examples: int = 1) -> Received:
    return Received(device=device, num_examples=examples, state=lambda: state)


def view_of(
    states: Sequence[Mapping[str, torch.Tensor]],
    *,
    examples: Sequence[int] | None = None,
    devices: Sequence[str] | None = None,
    previous: Mapping[str, torch.Tensor] | None = None,
    memory: Memory | None = None,
    round_number: int = 1,
    spec: PrototypeSpec = SPEC,
    server: Server | None = None,
    **options: Any,
) -> View:
    """A round of `spec` with these updates, of devices d00, d01, … unless they are named."""
    devices = devices or [f"d{k:02}" for k in range(len(states))]
    examples = examples or [1] * len(states)
    return View(
        spec=spec,
        round_number=round_number,
        previous=previous if previous is not None else {n: torch.zeros_like(w) for n, w in states[0].items()},
        updates=[received(d, s, n) for d, s, n in zip(devices, states, examples, strict=True)],
        memory=memory or Memory(),
        options=options,
        server=server or Server(),
    )


def points(*rows: Sequence[float]) -> list[dict[str, torch.Tensor]]:
    """States of one tensor `w` each."""
    return [{"w": torch.tensor(row, dtype=torch.float32)} for row in rows]
