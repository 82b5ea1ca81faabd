"""The card of the board's model: what it expects, and where it comes from. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from core.errors import ModelError
from core.versions import versions
from edge_agent.child.inputs import Assignment
from models.card import InputCard, ModelCard, layout_of
from models.normalization import normalization_of

__all__ = ["card_of"]


def card_of(work: Assignment, metrics: Mapping[str, float], *, tokens: bool = False) -> ModelCard:
    """The card of the model that this work has made; `tokens`: it takes token ids."""
    request, header, task = work.request, work.header, work.header.task
    accuracy = metrics.get("accuracy")
    return ModelCard(
        prototype=request.prototype,
        precision=str(work.spec.precision),
        classes=header.classes,
        class_names=() if task is None else task.class_names,
        input=_input(work, tokens),
        output="probabilities" if request.raw_input else "logits",
        latent=header.latent,
        fleet=request.fleet,
        device=request.device,
        round=request.round if request.round is not None else header.round,
        base=request.base,
        trained_here=request.round is not None,
        accuracy=accuracy,
        accuracy_samples=None if accuracy is None or work.held is None else len(work.held),
        edgestill=versions()["edgestill"],
    )


def _input(work: Assignment, tokens: bool) -> InputCard:
    shape, raw = work.header.input_shape, work.request.raw_input
    normalization = None if tokens else normalization_of(work.header.task, Path(work.request.data), shape)
    if raw and tokens:
        raise ModelError("[model] raw_input: token ids have no normalization; set it to false")
    if raw and normalization is None:
        raise ModelError(
            "[model] raw_input: the samples are used as they are stored, so there is no normalization to put into the "
            "graph; give [task] mean and std in fleet.toml, or set it to false"
        )
    images = len(shape) == 3
    return InputCard(
        dtype="int64" if tokens else "uint8" if raw and images else "float32",
        layout=layout_of(shape, tokens=tokens),
        shape=shape,
        mean=None if normalization is None else normalization[0],
        std=None if normalization is None else normalization[1],
        inside=raw,
        sample_rate=None if work.header.task is None else work.header.task.sample_rate,
    )
