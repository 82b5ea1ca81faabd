"""A model as an ONNX file whose weights keep their names and values.

Torch's exporter provides only the structure of the graph. Its weights cannot be relied on: it merges equal tensors (a
new BatchNorm has four of them), and some settings fold BatchNorm into the convolution under the convolution's name. So
it gets a copy of the model in which every float tensor is filled with a distinct number, with all folding off, and the
true values are patched in afterwards, by name, through `quant/onnx/weights.py`: the same path by which an agent without
torch creates the file of the next round. Then the file is run and compared with the model.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from core.errors import ModelError
from core.files import write_atomic
from quant.onnx.freeze import WithSteps, freeze, packed_weights
from quant.onnx.graph_check import parse_graph
from quant.onnx.integers.lowbit import LowBits
from quant.onnx.parity import check_parity
from quant.onnx.slim import keep_outputs, slim_graph
from quant.onnx.weights import EXPORT_OPSET, compact_weights, patch_weights

__all__ = ["OnnxExport", "export_onnx"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxExport:
    """An exported graph, and its difference from the model on the example."""

    data: bytes
    difference: float  # max |torch - ONNX Runtime|
    ties: int  # see quant/onnx/parity.py


def export_onnx(
    model: nn.Module,
    example: Tensor,
    path: Path | str | None = None,
    *,
    compact: bool = True,
    low_bits: LowBits | None = None,
) -> OnnxExport:
    """`model` in evaluation mode as standard ONNX with a free batch size; input `input`, output `logits`.

    `example` is one batch, two samples or more. Quantized weights are stored in their bits with `compact`, as float32
    without; for `low_bits` see `compact_weights`. With `path`, the file is written atomically. A graph that does not
    load, or that differs from the model on the example, raises ModelError and is not written.
    """
    example = example.detach().cpu()
    frozen = freeze(model)
    weights = _values(frozen)
    data = patch_weights(_template(frozen, example), weights)
    if compact:
        data = compact_weights(data, packed_weights(model), low_bits=low_bits)
    parity = check_parity(model, data, example)
    data = keep_outputs(data, 1)
    if path is not None:
        write_atomic(path, data)
    return OnnxExport(data=data, difference=parity.difference, ties=parity.ties)


def _values(frozen: nn.Module) -> dict[str, NDArray[Any]]:
    state = frozen.state_dict()
    return {name: t.numpy().copy() for name, t in state.items() if not name.endswith("num_batches_tracked")}


def _template(frozen: nn.Module, example: Tensor) -> bytes:
    """The graph of `frozen`, with an initializer for each of its tensors; overwrites the values, also in `frozen`."""
    expected = set(_values(frozen))
    with torch.no_grad():
        for number, tensor in enumerate(frozen.state_dict().values(), start=1):
            if tensor.is_floating_point():
                tensor.fill_(number)  # distinct, or the exporter merges them
    data = slim_graph(_traced(WithSteps(frozen), example), prefix="model.")
    found = {t.name for t in parse_graph(data).graph.initializer}
    if found != expected:
        raise ModelError(f"the ONNX exporter lost or renamed {sorted(found ^ expected)[0]!r}; is it used in forward?")
    return data


def _traced(model: nn.Module, example: Tensor) -> bytes:
    file = io.BytesIO()
    try:
        with _quiet():
            torch.onnx.export(
                model,
                (example,),
                file,  # type: ignore[arg-type]  # annotated for the other exporter
                dynamo=False,  # the other exporter takes seconds, and optimizes by default
                opset_version=EXPORT_OPSET,
                do_constant_folding=False,
                training=torch.onnx.TrainingMode.PRESERVE,
                input_names=["input"],
                output_names=["logits"],  # outputs for levels, if any, are identified by their order
                dynamic_axes={"input": {0: "batch"}, "logits": {0: "batch"}},
            )
    except Exception as error:  # an operator that ONNX lacks, or any exception of the model's forward
        reason = (str(error).splitlines() or [""])[0]
        raise ModelError(f"the model does not export to ONNX: {type(error).__name__}: {reason}") from error
    return file.getvalue()


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter warns of its own deprecation and of Python numbers in forward, and prints the graph if it fails."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.jit")]
    levels = [logger.level for logger in loggers]
    printing = torch._C._jit_onnx_log  # writes to file descriptor 1; torch has no switch that works
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        torch._C._jit_onnx_log = lambda *_: None
        try:
            yield
        finally:
            torch._C._jit_onnx_log = printing
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
