"""Running ONNX files, and comparing one with the model it came from. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import ModelError

__all__ = ["max_difference", "open_session", "run_all", "run_graph"]


def open_session(data: bytes | Path, *, threads: int = 1, fold: bool = True, lean: bool = False) -> Any:
    """An ONNX Runtime session on the CPU; one thread, because parallel sessions scale better than threads in one.

    With `fold`, stored levels are dequantized once, when the session opens: ONNX Runtime would otherwise repeat it at
    every call, or replace the surrounding operators by integer ones, which would change the results of graphs of
    `quant/onnx/export.py`. Graphs of `quant/onnx/integers/int8.py` need integer operators: open them without `fold`. A
    `lean` session frees its memory after each call.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = options.enable_mem_pattern = not lean
    options.log_severity_level = 4  # errors are raised below
    options.add_session_config_entry("session.disable_quant_qdq", "1" if fold else "0")
    source = str(data) if isinstance(data, Path) else data
    try:
        return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime has an exception class per status code
        raise ModelError(f"ONNX Runtime {ort.__version__} does not load the graph: {_first_line(error)}") from error


def run_all(session: Any, x: NDArray[Any] | Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """Every output for `x`: the array of the only input, or arrays by input name."""
    feeds = dict(x) if isinstance(x, Mapping) else {session.get_inputs()[0].name: x}
    try:
        return list(session.run(None, feeds))
    except Exception as error:
        raise ModelError(f"ONNX Runtime does not run the graph: {_first_line(error)}") from error


def run_graph(session: Any, x: NDArray[Any] | Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """The first output for `x`."""
    return run_all(session, x)[0]


def max_difference(a: NDArray[Any], b: NDArray[Any]) -> float:
    """The largest absolute difference; infinite where shapes differ or a number is not finite."""
    if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return float("inf")
    return float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0.0))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:300]
