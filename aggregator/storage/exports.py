"""Published models as files for other tools: safetensors, and ONNX in several forms. ONNX needs torch.

A file starts as the prototype's graph at the precision asked for, then, as the options say,

    low_bits   levels stored for an older ONNX Runtime (quant/onnx/targets.py)
    nbits      linear layers as MatMulNBits (quant/onnx/integers/nbits.py)
    int8       static int8, calibrated on samples (quant/onnx/integers/int8.py), from the float32 graph
    raw_input  raw values in, probabilities out (quant/onnx/raw.py)

and carries its card (models/card.py), with the accuracy that this very file has on the fleet's validation samples.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from aggregator.storage.artifacts import open_artifact
from core.errors import ConfigError
from core.files import write_atomic
from core.versions import versions
from models.card import InputCard, ModelCard, layout_of
from models.normalization import normalization_of
from models.spec import PrototypeSpec, parse_prototype
from quant.precision import PRECISIONS
from wire.ids import digest_of
from wire.messages import ModelHeader
from wire.tensors import to_safetensors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from models.split import Prototype

__all__ = ["FORMATS", "Export", "export_model"]

FORMATS = ("onnx", "onnx-int8", "safetensors")
INT8 = "int8"
SCORED = 10_000  # samples of the validation set at most


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """What to write."""

    kind: str = "onnx"
    precision: str | None = None  # the prototype's own; int8; or another that its weights can be written in
    low_bits: str | None = None  # of 1- and 2-bit levels; None: the narrowest that this machine runs
    nbits: int | None = None  # 2 or 4: linear layers as MatMulNBits
    raw_input: bool = False
    calibration: Path | None = None  # samples for int8, and to read a normalization from
    validation: Path | None = None  # samples to score the file on
    fleet: str = ""


def export_model(sealed: bytes, path: Path, export: Export) -> dict[str, Any]:
    """Write an artifact's model; returns a description."""
    if export.kind not in FORMATS:
        raise ConfigError(f"unknown format {export.kind!r}; known: {' '.join(FORMATS)}")
    header, body = open_artifact(sealed)
    facts: dict[str, Any] = {"path": str(path), "format": export.kind, "prototype": header.prototype}
    facts["round"] = header.round
    if export.kind == "safetensors":
        data = to_safetensors(body)
        write_atomic(path, data)
        return {**facts, "bytes": len(data)}
    precision = INT8 if export.kind == "onnx-int8" else export.precision or str(parse_prototype(header.prototype)[1])
    if precision == INT8 and export.nbits is not None:
        raise ConfigError("MatMulNBits is for 1-, 2- and 4-bit weights, not for int8; give one of them")
    data, more, tokens = _graph(header, body, precision, export)
    card = _card(header, precision, export, base=digest_of(sealed), tokens=tokens)
    return {**facts, "precision": precision, **more, **_write(path, data, card, header, export)}


def _graph(header: ModelHeader, body: bytes, precision: str, export: Export) -> tuple[bytes, dict[str, Any], bool]:
    """The plain graph, what is known of it, and whether it takes token ids."""
    import torch

    from quant.onnx.export import export_onnx
    from quant.onnx.integers.nbits import to_nbits

    torch.set_num_threads(1)
    model = _model(header, body, str(parse_prototype(header.prototype)[1]) if precision == INT8 else precision)
    example = model.example_input(4, generator=torch.Generator().manual_seed(0))
    tokens = not example.is_floating_point()
    if precision == INT8:
        return *_int8(header, export_onnx(model, example, compact=False).data, export), tokens
    made = export_onnx(model, example, low_bits=export.low_bits)  # type: ignore[arg-type]  # one of the three
    facts: dict[str, Any] = {"difference": made.difference}
    if export.nbits is None:
        return made.data, facts, tokens
    converted = to_nbits(made.data, low_bits=export.nbits)
    return converted.data, {**facts, "matmul_nbits": list(converted.weights)}, tokens


def _model(header: ModelHeader, body: bytes, precision: str) -> Prototype:
    """The model with its weights at this precision."""
    from models.build import build
    from quant.pack import load_packed
    from wire.tensors import decode

    arch, own = parse_prototype(header.prototype)
    known = {str(one): one for one in PRECISIONS}
    if precision not in known:
        raise ConfigError(f"--precision {precision!r}: known are int8 {' '.join(known)}")
    spec = PrototypeSpec(arch, known[precision], header.input_shape, header.classes, header.latent)
    model, tensors = build(spec), decode(body)
    if known[precision] != own:
        wanted = model.state_dict()
        missing = [name for name in wanted if name not in tensors and not name.endswith("num_batches_tracked")]
        if missing:
            raise ConfigError(
                f"--precision {precision}: {header.prototype} was trained without quantized activations, whose scales "
                "are missing; give fp32, w1 or int8"
            )
        tensors = {name: value for name, value in tensors.items() if name in wanted}
    load_packed(model, tensors)
    return model.eval()


def _int8(header: ModelHeader, fp32: bytes, export: Export) -> tuple[bytes, dict[str, Any]]:
    from aggregator.storage.labelled_samples import load_validation
    from quant.onnx.integers.int8 import export_int8

    if export.calibration is None:
        raise ConfigError("int8 needs samples to calibrate with; give [task] validation, or --calibration FILE.npz")
    x, _ = load_validation(export.calibration, header.input_shape, header.classes)
    made = export_int8(fp32, x[:512])
    return made.data, {"agreement": made.agreement}


def _card(header: ModelHeader, precision: str, export: Export, *, base: str, tokens: bool) -> ModelCard:
    task, shape = header.task, header.input_shape
    normalization = None if tokens else normalization_of(task, export.calibration, shape)
    if export.raw_input and normalization is None:
        raise ConfigError("--raw-input: no normalization is known; give [task] mean and std in fleet.toml")
    raw = export.raw_input
    given = InputCard(
        dtype="int64" if tokens else "uint8" if raw and len(shape) == 3 else "float32",
        layout=layout_of(shape, tokens=tokens),
        shape=shape,
        mean=None if normalization is None else normalization[0],
        std=None if normalization is None else normalization[1],
        inside=raw,
        sample_rate=None if task is None else task.sample_rate,
    )
    return ModelCard(
        prototype=header.prototype,
        precision=precision,
        classes=header.classes,
        class_names=() if task is None else task.class_names,
        input=given,
        output="probabilities" if raw else "logits",
        latent=header.latent,
        fleet=export.fleet,
        round=header.round,
        base=base,
        edgestill=versions()["edgestill"],
    )


def _write(path: Path, plain: bytes, card: ModelCard, header: ModelHeader, export: Export) -> dict[str, Any]:
    """Score the graph, complete its card, and write it."""
    from quant.onnx.metadata import write_metadata
    from quant.onnx.raw import raw_graph

    facts: dict[str, Any] = {}
    if export.validation is not None:
        accuracy, count = _accuracy(plain, header, export.validation, integer=card.precision == INT8)
        card = msgspec.structs.replace(card, accuracy=accuracy, accuracy_samples=count)
        facts = {"accuracy": accuracy, "accuracy_samples": count}
    given = card.input
    if given.inside:
        assert given.mean is not None
        assert given.std is not None
        plain = raw_graph(plain, given.mean, given.std, dtype="uint8" if given.dtype == "uint8" else "float32")
    data = write_metadata(plain, card.to_metadata(), producer="edgestill", version=card.edgestill)
    write_atomic(path, data)
    return {**facts, "bytes": len(data), **_versions(data)}


def _accuracy(graph: bytes, header: ModelHeader, samples: Path, *, integer: bool) -> tuple[float, int]:
    from aggregator.storage.labelled_samples import load_validation
    from quant.onnx.session import open_session, run_graph

    x, y = load_validation(samples, header.input_shape, header.classes)
    x, y = x[:SCORED], y[:SCORED]
    session = open_session(graph, fold=not integer)
    hits = sum(_hits(run_graph(session, x[i : i + 64]), y[i : i + 64]) for i in range(0, len(x), 64))
    return hits / len(y), len(y)


def _hits(logits: NDArray[np.float32], y: NDArray[np.int64]) -> int:
    return int((logits.argmax(1) == y).sum())


def _versions(data: bytes) -> dict[str, int]:
    from quant.onnx.graph_check import DEFAULT_DOMAINS, parse_graph

    model = parse_graph(data)
    return {"opset": max(o.version for o in model.opset_import if o.domain in DEFAULT_DOMAINS), "ir": model.ir_version}
