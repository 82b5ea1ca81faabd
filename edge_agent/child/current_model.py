"""The model for the application on the board, as three files in a folder. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from core.files import write_atomic
from edge_agent.child.inputs import Assignment
from edge_agent.state.store import CURRENT
from wire.tensors import Tensor, encode, to_safetensors

__all__ = ["write_current"]


def write_current(
    work: Assignment, graph: bytes, packed: Mapping[str, Tensor], metrics: Mapping[str, float]
) -> dict[str, float]:
    """Write graph, tensors and metadata; returns `{"refused": 1.0}` instead if the board's own model is better."""
    if work.request.refuse_worse and metrics.get("accuracy", 0.0) < metrics.get("accuracy_before", 0.0):
        return {"refused": 1.0}
    about: dict[str, Any] = {
        "prototype": work.request.prototype,
        "round": work.request.round if work.request.round is not None else work.header.round,
        "base": work.request.base,
        "trained_here": work.request.round is not None,
        "accuracy": metrics.get("accuracy"),
    }
    files: tuple[bytes | str, ...] = (graph, to_safetensors(encode(packed)), json.dumps(about, indent=2) + "\n")
    for name, data in zip(CURRENT, files, strict=True):
        write_atomic(work.folder / name, data)
    return {}
