"""Decodes and checks a device's answer as the aggregator does: header, tensors, shapes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

from aggregator.fusion.types import Received
from aggregator.intake.checks import read_state
from fleet.simulation.device import Answer, SimulatedDevice
from models.roles import split_extra
from quant.pack import unpack
from wire.envelope import sealed_size
from wire.headers import decode_update
from wire.messages import MODEL_STAYS
from wire.tensors import decode

__all__ = ["Sent", "read_answer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The answer of one device; without an update, `answer.reason` explains why."""

    device: SimulatedDevice
    answer: Answer  # with its message removed
    size: int = 0  # bytes of the message in its envelope
    read_s: float = 0.0
    update: Received | None = None
    trained: Received | None = None  # the update as sent, where `update` is the one that is fused (fleet/virtual/)
    loss: float = math.nan


def read_answer(device: SimulatedDevice, answer: Answer, shapes: Mapping[str, tuple[int, ...]]) -> Sent:
    """Decode and check the answer of `device`; `shapes` are those of its prototype's tensors."""
    if answer.message is None:
        return Sent(device=device, answer=answer)
    begun = time.perf_counter()
    header, body = decode_update(memoryview(answer.message))  # type: ignore[arg-type]  # the body of a view is no copy
    tensors, extra = split_extra(decode(body, intact=True))
    update = Received(
        device=device.id,
        num_examples=header.num_examples,
        state=_held(read_state(device.id, tensors, shapes, header.update)),
        label_counts=header.label_counts,
        predictor_only=header.update == "predictor",
        model=header.update not in MODEL_STAYS,
        extra=_held(unpack(extra)),
    )
    return Sent(
        device=device,
        answer=replace(answer, message=None),  # its tensors are held: not twice
        size=sealed_size(len(answer.message), kind="update", sender=device.id, round=header.round),
        read_s=time.perf_counter() - begun,
        update=update,
        trained=update,
        loss=header.metrics.get("train_loss", math.nan),
    )


def _held(state: dict[str, torch.Tensor]) -> Callable[[], dict[str, torch.Tensor]]:
    return lambda: state
