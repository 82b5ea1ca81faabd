"""The card of the board's model: what it expects, and where it comes from. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeAlias

import numpy as np

from core.errors import ModelError
from edge_agent.child.inputs import Assignment
from models.card import InputCard, ModelCard, layout_of
from models.npz import read_npz, stored_dtype

__all__ = ["Normalization", "card_of", "normalization_of"]

#: Mean and std of raw values: one number, or one per channel.
Normalization: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]
BYTES: Normalization = ((0.0,), (255.0,))  # of uint8 samples without mean and std, as in models/samples.py


def card_of(work: Assignment, metrics: Mapping[str, float]) -> ModelCard:
    """The card of the model that this work has made."""
    request, header = work.request, work.header
    accuracy = metrics.get("accuracy")
    return ModelCard(
        prototype=request.prototype,
        precision=str(work.spec.precision),
        classes=header.classes,
        input=_input(work),
        output="probabilities" if request.raw_input else "logits",
        latent=header.latent,
        fleet=request.fleet,
        device=request.device,
        round=request.round if request.round is not None else header.round,
        base=request.base,
        trained_here=request.round is not None,
        accuracy=accuracy,
        accuracy_samples=None if accuracy is None or work.held is None else len(work.held),
        edgestill=_version(),
    )


def normalization_of(work: Assignment) -> Normalization | None:
    """How the samples of the board are normalized; None if they are used as they are stored."""
    return _stored(Path(work.request.data))


def _input(work: Assignment) -> InputCard:
    shape, tokens = work.header.input_shape, work.train.x.dtype == np.int64
    normalization, raw = normalization_of(work), work.request.raw_input
    if raw and tokens:
        raise ModelError("[model] raw_input: token ids have no normalization; set it to false")
    if raw and normalization is None:
        raise ModelError(
            "[model] raw_input: the samples are used as they are stored, so there is no normalization to put into the "
            "graph; store them as uint8 with mean and std, or set it to false"
        )
    images = len(shape) == 3
    return InputCard(
        dtype="int64" if tokens else "uint8" if raw and images else "float32",
        layout=layout_of(shape, tokens=tokens),
        shape=shape,
        mean=None if normalization is None else normalization[0],
        std=None if normalization is None else normalization[1],
        inside=raw,
    )


def _stored(path: Path) -> Normalization | None:
    """Mean and std of an .npz of bytes."""
    if stored_dtype(path, "x") != np.uint8:
        return None
    arrays = read_npz(path, ("mean", "std"))
    mean, std = (
        tuple(float(number) for number in np.atleast_1d(arrays[name]).reshape(-1)) if name in arrays else default
        for name, default in zip(("mean", "std"), BYTES, strict=True)
    )
    return mean, std


def _version() -> str:
    try:
        return version("edgestill")
    except PackageNotFoundError:
        return ""
