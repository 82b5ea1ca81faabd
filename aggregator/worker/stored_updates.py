"""Accepted updates as inputs of fusion (`Received`), each loaded lazily from its blob.

So a round of a thousand updates needs the memory of one. A part that iterates twice reads them twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray

from aggregator.fusion.types import Received
from aggregator.intake.checks import read_body
from aggregator.storage.artifacts import open_artifact, payload_of
from aggregator.storage.blobs import Blobs
from aggregator.storage.rows import UpdateRow
from models.roles import split_extra
from quant.delta import apply_delta
from quant.pack import unpack
from wire.headers import decode_update
from wire.messages import MODEL_STAYS, UpdateHeader
from wire.tensors import Tensor, decode
from wire.tensors.packed import Packed

__all__ = ["base_arrays", "received"]

Arrays = Mapping[str, NDArray[Any]]


def base_arrays(sealed: bytes) -> dict[str, NDArray[Any]]:
    """The tensors of a published model, as arrays."""
    tensors = decode(open_artifact(sealed)[1])
    return {name: t.dequantize() if isinstance(t, Packed) else t for name, t in tensors.items()}


def received(row: UpdateRow, blobs: Blobs, base: Arrays, *, late: bool = False, label_counts: bool = False) -> Received:
    """The update of `row`; `base` is the model that the device started from. `label_counts` are read immediately."""

    def read() -> tuple[UpdateHeader, Mapping[str, Tensor], Mapping[str, Tensor]]:
        header, body = decode_update(payload_of(blobs.read(row.digest)))
        shapes = {name: array.shape for name, array in base.items()}
        return header, *split_extra(read_body(header.update, body, shapes))

    def state() -> dict[str, torch.Tensor]:
        header, tensors, _ = read()
        return unpack(apply_delta(base, tensors) if header.update == "delta" else tensors)

    return Received(
        device=row.device,
        num_examples=row.num_examples,
        state=state,
        label_counts=decode_update(payload_of(blobs.read(row.digest)))[0].label_counts if label_counts else (),
        predictor_only=row.kind == "predictor",
        model=row.kind not in MODEL_STAYS,
        extra=lambda: unpack(read()[2]),
        late=late,
    )
