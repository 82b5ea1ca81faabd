"""Published models: lookup, rollback, export for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from aggregator.storage.artifacts import open_artifact, seal_artifact
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.rows import ModelRow
from core.errors import ConfigError
from core.files import write_atomic
from wire.keys import Ed25519PrivateKey
from wire.messages import ModelHeader
from wire.tensors import to_safetensors

__all__ = ["FORMATS", "export_model", "find_model", "model_facts", "roll_back"]

FORMATS = ("onnx", "onnx-int8", "safetensors")


def find_model(journal: Journal, name: str) -> ModelRow:
    """The model that `name` means: a prototype (its newest), a number, or the start of a digest."""
    current = journal.current()
    if name in current:
        return current[name]
    found = journal.find_models(name) if name else []
    if len(found) == 1:
        return found[0]
    what = "several models" if found else "no model"
    known = " ".join(current) or "none yet"
    raise ConfigError(f"{what} called {name!r}; give a prototype ({known}), a number or more of the digest")


def model_facts(model: ModelRow, *, current: bool) -> dict[str, Any]:
    """One model, as `edgestill model list --json` prints it."""
    return {
        "number": model.number,
        "digest": model.digest,
        "prototype": model.prototype,
        "round": model.round,
        "origin": model.origin,
        "recipe": model.recipe,
        "current": current,
        "metrics": dict(model.metrics),
        "size": model.size,
        "created": model.created,
        "parents": list(model.parents),
    }


def roll_back(
    journal: Journal, blobs: Blobs, name: str, *, key: Ed25519PrivateKey, fleet: str, number: int, now: float
) -> ModelRow:
    """Make an older model its prototype's newest: the same tensors in a new artifact; inside a transaction."""
    old = find_model(journal, name)
    newest = journal.current()[old.prototype]
    if old.digest == newest.digest:
        raise ConfigError(f"model {old.digest[:12]}… is the newest of {old.prototype} already; name an older one")
    header, body = open_artifact(blobs.read(old.digest))
    header = msgspec.structs.replace(
        header,
        round=number,
        recipe="rollback",
        parents=(newest.digest, old.digest),
        metrics=dict(old.metrics),  # from the journal: a header of an older version has other names
    )
    sealed = seal_artifact(header, body, key=key, fleet=fleet)
    row = ModelRow(
        digest=blobs.put(sealed),
        prototype=header.prototype,
        round=number,
        origin="rollback",
        recipe=old.recipe,
        parents=header.parents,
        metrics=old.metrics,
        size=len(sealed),
        created=now,
    )
    journal.add_model(row)
    return row


def export_model(sealed: bytes, kind: str, path: Path, *, calibration: Path | None = None) -> dict[str, Any]:
    """Export an artifact's model; returns a description. ONNX needs torch, int8 also calibration samples."""
    if kind not in FORMATS:
        raise ConfigError(f"unknown format {kind!r}; known: {' '.join(FORMATS)}")
    header, body = open_artifact(sealed)
    facts: dict[str, Any] = {"path": str(path), "format": kind, "prototype": header.prototype, "round": header.round}
    if kind == "safetensors":
        data = to_safetensors(body)
        write_atomic(path, data)
        return {**facts, "bytes": len(data)}
    return {**facts, **_export_onnx(header, body, kind, path, calibration)}


def _export_onnx(header: ModelHeader, body: bytes, kind: str, path: Path, calibration: Path | None) -> dict[str, Any]:
    import torch

    from models.build import build
    from models.spec import PrototypeSpec, parse_prototype
    from quant.onnx.export import export_onnx
    from quant.pack import load_packed
    from wire.tensors import decode

    torch.set_num_threads(1)
    spec = PrototypeSpec(*parse_prototype(header.prototype), header.input_shape, header.classes, header.latent)
    model = build(spec)
    load_packed(model, decode(body))
    model.eval()
    example = model.example_input(4, generator=torch.Generator().manual_seed(0))
    if kind == "onnx":
        made = export_onnx(model, example, path)
        return {"bytes": len(made.data), "difference": made.difference}
    if calibration is None:
        raise ConfigError("int8 needs samples to calibrate with; give [task] validation, or --calibration FILE.npz")
    return _export_int8(header, export_onnx(model, example, compact=False).data, path, calibration)


def _export_int8(header: ModelHeader, fp32: bytes, path: Path, calibration: Path) -> dict[str, Any]:
    from aggregator.storage.labelled_samples import load_validation
    from quant.onnx.int8 import export_int8

    x, _ = load_validation(calibration, header.input_shape, header.classes)
    made = export_int8(fp32, x[:512], path)
    return {"bytes": len(made.data), "agreement": made.agreement}
