"""Builds the server-side inputs of fusion (`Server`) from the worker's setup: samples, teachers, compute device."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from aggregator.fusion.types import Server
from aggregator.storage.labelled_samples import load_validation
from core.errors import DataError
from core.files import read_regular
from models.build import build
from models.compute_device import find_device, repeatable_on
from models.spec import PrototypeSpec
from wire.messages import Task

__all__ = ["Labelled", "load_labelled", "make_server"]

MAX_GRAPH = 2**31  # bytes: protobuf's limit

Labelled = tuple[torch.Tensor, torch.Tensor]


def load_labelled(path: str, input_shape: tuple[int, ...], classes: int, task: Task | None = None) -> Labelled:
    """A file of labelled samples, normalised as the task says."""
    x, y = load_validation(Path(path), input_shape, classes, task)
    return torch.from_numpy(x), torch.from_numpy(y)


def make_server(
    settings: Mapping[str, Any], spec: PrototypeSpec, seed: int, test: Labelled | None, task: Task | None = None
) -> Server:
    """`settings` is [fusion] of fleet.toml; `spec` is any of the fleet's prototypes, `test` the samples of [task]."""
    validation = test if settings["validation"] == "task" else None
    if settings["validation"] not in ("task", "none"):
        validation = load_labelled(settings["validation"], spec.input_shape, spec.classes, task)
    device = find_device(settings["device"])
    repeatable_on(device)
    return Server(
        seed=seed,
        source=_source(settings, spec, seed, task),
        validation=validation,
        test=test,
        score_ensemble=settings["score_ensemble"],
        device=device,
        amp=settings["amp"],
        processes=settings["processes"],
        teachers=[_read(path) for path in settings["teachers"]],
    )


def _source(settings: Mapping[str, Any], spec: PrototypeSpec, seed: int, task: Task | None) -> torch.Tensor | None:
    if settings["source"] == "none":
        return None
    from aggregator.fusion.teachers.unlabeled import load_source

    return load_source(
        settings["source"],
        spec.input_shape,
        tokens=build(spec).tokens,
        size=settings["source_size"],
        fraction=settings["source_fraction"],
        classes=settings["source_classes"],
        seed=seed,
        task=task,
    )


def _read(path: str) -> bytes:
    try:
        return read_regular(path, MAX_GRAPH)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; 'teachers' are ONNX files") from None
