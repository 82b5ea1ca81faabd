"""Accepted updates as the sequence of states that a recipe fuses, each read from its blob when it is asked for.

So a round of a thousand updates needs the memory of one. A recipe that goes over them twice reads them twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import torch
from numpy.typing import NDArray

from aggregator.artifacts import open_artifact, payload_of
from aggregator.blobs import Blobs
from aggregator.intake import read_body
from aggregator.rows import UpdateRow
from models.roles import slice_state
from quant.delta import apply_delta
from quant.pack import unpack
from wire.packed import Packed
from wire.tensors import Tensor, decode
from wire.update import decode_update

__all__ = ["StoredUpdates", "base_arrays"]

State = dict[str, torch.Tensor]


def base_arrays(sealed: bytes) -> dict[str, NDArray[Any]]:
    """The tensors of a published model, as arrays."""
    tensors = decode(open_artifact(sealed)[1])
    return {name: t.dequantize() if isinstance(t, Packed) else t for name, t in tensors.items()}


class StoredUpdates(Sequence[Mapping[str, torch.Tensor]]):
    """The states that devices of one prototype sent, in the order of `rows`; of the predictor only, if so asked."""

    def __init__(
        self, rows: Sequence[UpdateRow], blobs: Blobs, base: dict[str, NDArray[Any]], *, predictor: bool = False
    ) -> None:
        self._rows, self._blobs, self._base, self._predictor = rows, blobs, base, predictor

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> State: ...

    @overload
    def __getitem__(self, index: slice) -> StoredUpdates: ...

    def __getitem__(self, index: int | slice) -> State | StoredUpdates:
        if isinstance(index, slice):
            return StoredUpdates(self._rows[index], self._blobs, self._base, predictor=self._predictor)
        row = self._rows[index]
        header, body = decode_update(payload_of(self._blobs.read(row.digest)))
        tensors: Mapping[str, Tensor] = read_body(
            header.update, body, {name: array.shape for name, array in self._base.items()}
        )
        if header.update == "delta":
            tensors = apply_delta(self._base, tensors)
        return unpack(slice_state(tensors, "predictor") if self._predictor else tensors)
