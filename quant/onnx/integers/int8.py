"""An fp32 ONNX graph as static int8 for serving, through ONNX Runtime's quantizer. Imports no torch.

Weights become int8 with a scale per output channel, activations uint8 with ranges seen on a calibration batch, written
as QuantizeLinear/DequantizeLinear pairs, which ONNX Runtime fuses into integer kernels. Accuracy is not guaranteed: the
report has the fraction of samples with the same predicted class, on the calibration batch or on a batch given by the
caller.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from core.errors import ModelError
from core.files import write_atomic
from quant.onnx.graph_check import check_graph, dump_graph
from quant.onnx.session import max_difference, open_session, run_graph

__all__ = ["Int8Export", "export_int8"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8Export:
    """An int8 graph and how it compares with the fp32 graph that it came from."""

    data: bytes
    ratio: float  # bytes of the int8 file / bytes of the fp32 file
    agreement: float  # share of the samples with the same argmax
    difference: float  # max |fp32 - int8| over the logits: quantization error, not rounding


def export_int8(
    fp32: bytes,
    calibration: NDArray[np.float32],
    path: Path | str | None = None,
    *,
    evaluation: NDArray[np.float32] | None = None,
    batch: int = 64,
) -> Int8Export:
    """`fp32`, a graph with one float input, as int8; ranges are taken from `calibration` (N, ...).

    A hundred or more representative samples are enough. The graphs are compared on `evaluation`, or on the calibration
    samples. With `path`, the file is written atomically.
    """
    name = _only_input(check_graph(fp32))
    if len(calibration) == 0:
        raise ModelError("int8 export: the calibration batch is empty; give a hundred samples or more")
    data = _quantized(fp32, name, calibration, batch)
    x = calibration if evaluation is None else evaluation
    float_logits, int_logits = (run_graph(open_session(g, fold=False), x) for g in (fp32, data))
    if path is not None:
        write_atomic(path, data)
    return Int8Export(
        data=data,
        ratio=len(data) / len(fp32),
        agreement=float((float_logits.argmax(1) == int_logits.argmax(1)).mean()),
        difference=max_difference(float_logits, int_logits),
    )


def _only_input(model: onnx.ModelProto) -> str:
    weights = {t.name for t in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in weights]
    if len(inputs) != 1 or inputs[0].type.tensor_type.elem_type != onnx.TensorProto.FLOAT:
        raise ModelError("int8 export: the graph must have one float32 input")
    return str(inputs[0].name)


def _quantized(fp32: bytes, name: str, calibration: NDArray[np.float32], batch: int) -> bytes:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Batches(CalibrationDataReader):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            self.feeds = iter({name: calibration[i : i + batch]} for i in range(0, len(calibration), batch))

        def get_next(self) -> dict[str, NDArray[Any]] | None:
            return next(self.feeds, None)

    with tempfile.TemporaryDirectory() as folder, _quiet():
        source, prepared, target = (str(Path(folder, f"{stem}.onnx")) for stem in ("fp32", "prepared", "int8"))
        Path(source).write_bytes(fp32)
        try:
            # folds BatchNorm into the convolutions, which the quantizer does not; names do not matter any more here
            quant_pre_process(source, prepared, skip_symbolic_shape=True)
            quantize_static(
                prepared,
                target,
                Batches(),
                quant_format=QuantFormat.QDQ,
                per_channel=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                reduce_range=True,  # 7 bits: x86 without VNNI adds pairs of products of 8 bits in 16, which saturates
            )
        except Exception as error:  # the quantizer raises anything: ValueError, KeyError, ONNX Runtime's own
            raise ModelError(f"int8 export: ONNX Runtime's quantizer failed ({error!r})") from error
        return dump_graph(onnx.load(target))


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the quantizer's advice, through the root logger, to do what was just done."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
