"""The board's current model on new inputs, through ONNX Runtime on one thread. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import DataError, ModelError
from models.npz import read_npy
from quant.onnx.session import open_session, run_graph

__all__ = ["load_inputs", "predict"]

BATCH = 64


def load_inputs(path: Path) -> NDArray[Any]:
    """The inputs in an .npy file: (N, ...), float32 or int64 as the model expects."""
    x = read_npy(path)
    if x.ndim < 2 or not len(x):
        raise DataError(f"{path}: give one array (N, ...) of N inputs; save it with numpy.save")
    return x.astype(np.float32) if x.dtype.kind == "f" else x


def predict(model: Path, x: NDArray[Any]) -> NDArray[np.float32]:
    """Logits (N, C) of the ONNX file `model` for the inputs `x` (N, ...)."""
    if not model.is_file():
        raise ModelError(f"{model}: there is no model yet; the agent writes it after its first round")
    session = open_session(model)
    wanted = session.get_inputs()[0]
    shape = tuple(wanted.shape[1:])
    if x.shape[1:] != shape:
        raise DataError(f"inputs of {x.shape[1:]}, but {model} takes {shape}; give an array (N, {_comma(shape)})")
    if wanted.type == "tensor(float)":
        x = x.astype(np.float32)
    parts = [run_graph(session, x[i : i + BATCH]) for i in range(0, len(x), BATCH)]
    logits: NDArray[np.float32] = np.concatenate(parts)
    return logits


def _comma(shape: tuple[Any, ...]) -> str:
    return ", ".join(map(str, shape))
