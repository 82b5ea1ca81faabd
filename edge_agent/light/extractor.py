"""The extractor of a light device: an ONNX graph through ONNX Runtime. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import ModelError
from quant.onnx.session import open_session, run_graph

__all__ = ["latents_of"]

BATCH = 8  # larger batches would dominate the memory


def latents_of(graph: Path | bytes, x: NDArray[Any], width: int) -> NDArray[np.float32]:
    """z (N, D) of all inputs `x` (N, ...); a graph whose output is not D = `width` wide, or not finite, is refused."""
    session = open_session(graph, lean=True)
    if session.get_inputs()[0].type == "tensor(float)":
        x = x.astype(np.float32, copy=False)
    z = np.empty((len(x), width), np.float32)
    for start in range(0, len(x), BATCH):
        found = run_graph(session, x[start : start + BATCH])
        if found.shape[1:] != (width,):
            raise ModelError(f"the extractor's graph gives {found.shape[1:]} per sample, the fleet's latent is {width}")
        z[start : start + BATCH] = found
    if not np.isfinite(z).all():
        raise ModelError("the graph gives NaN or infinity for the board's samples")
    return z
