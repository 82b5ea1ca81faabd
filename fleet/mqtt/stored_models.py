"""Reads the devices' own models of a fleet over MQTT: the aggregator's stored updates, and the agents' local state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from aggregator.fusion.types import Received
from aggregator.storage.artifacts import open_artifact
from aggregator.storage.blobs import Blobs
from aggregator.storage.rows import UpdateRow
from aggregator.worker.stored_updates import base_arrays, received
from edge_agent.state.store import EXTRACTOR, PERSONAL, learned_path
from fleet.simulation.device import SimulatedDevice
from quant.pack import unpack
from wire.tensors import decode

__all__ = ["published_states", "read_kept_models", "stored_updates"]


def stored_updates(folder: Path, rows: Sequence[UpdateRow], models: Mapping[str, str]) -> dict[str, Received]:
    """Updates by device; `models` are the digests of the models that the devices started from."""
    blobs = Blobs(folder)

    @cache
    def base(digest: str) -> dict[str, NDArray[Any]]:
        return base_arrays(blobs.read(digest))

    return {row.device: received(row, blobs, base(models[row.device])) for row in rows if row.device in models}


def published_states(folder: Path, models: Mapping[str, str]) -> dict[str, dict[str, Tensor]]:
    """The published models by prototype, from the digests of their artifacts."""
    blobs = Blobs(folder)
    return {name: unpack(decode(open_artifact(blobs.read(digest))[1])) for name, digest in models.items()}


def read_kept_models(folder: Path, devices: Sequence[SimulatedDevice]) -> None:
    """Load into each device the local state that its agent keeps below `folder`."""
    for device in devices:
        for kind in (EXTRACTOR, PERSONAL):
            path = learned_path(folder / device.id / "state", device.prototype, kind)
            if path.is_file():
                device.kept[kind] = path.read_bytes()
