"""The side artifact that a device learns from in addition to its samples: a generator, or logits by label. No torch.

It is published like a model, signed and identified by its digest; the prototype in its header gives its type:

    generator:paper, generator:reference    FedGen's generator and p(y) (`models/latents.py`), by kind of noise
    label-logits:mean                       FedDistill's mean logits by label: one tensor (C, C)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.errors import ModelError
from models.latents import PROTOTYPE, Latents
from models.roles import LABEL_LOGITS
from wire.envelope import open_envelope
from wire.headers import decode_model
from wire.ids import AGGREGATOR
from wire.keys import Ed25519PublicKey
from wire.messages import ModelHeader
from wire.tensors import Tensor, decode
from wire.tensors.packed import Packed

__all__ = ["SideArtifact", "open_side_artifact", "read_side_artifact"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SideArtifact:
    """Either field may be set, never both."""

    latents: Latents | None = None
    label_logits: NDArray[np.float32] | None = None


def open_side_artifact(path: Path, *, key: Ed25519PublicKey, fleet: str, classes: int, latent: int) -> SideArtifact:
    """Check the artifact at `path` and read it; it must fit a model of `classes` and `latent`."""
    envelope = open_envelope(path.read_bytes(), public_key=key, fleet=fleet, sender=AGGREGATOR, kinds=("model",))
    header, body = decode_model(envelope.payload)
    if (header.classes, header.latent) != (classes, latent):
        fits = f"{header.classes} classes and latent {header.latent}"
        raise ModelError(f"{header.prototype} is for {fits}, the model has {classes} and {latent}")
    return read_side_artifact(header, decode(body))


def read_side_artifact(header: ModelHeader, tensors: dict[str, Tensor]) -> SideArtifact:
    """From an opened artifact."""
    kind = header.prototype.partition(":")[0]
    if kind == PROTOTYPE:
        return SideArtifact(latents=Latents.from_tensors(tensors, header))
    if kind == LABEL_LOGITS:
        logits = tensors.get(LABEL_LOGITS)
        if logits is None or isinstance(logits, Packed) or logits.shape != (header.classes, header.classes):
            raise ModelError(f"{header.prototype} without logits of {header.classes} classes")
        return SideArtifact(label_logits=logits.astype(np.float32))
    raise ModelError(f"{header.prototype} is nothing that this agent can learn from; update it")
