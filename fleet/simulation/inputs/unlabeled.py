"""The unlabeled samples of a simulated aggregator, selected by `--source`.

    auto    a sixth of the training set, held out from the devices, labels dropped: FedRAD's server set
    NAME    the training samples of another dataset, such as fashion_mnist for mnist or cifar100 for cifar10
    PATH    an .npz with x, a generator as .onnx (docs/fusion.md); a folder of pictures or a .csv (docs/data.md)
    noise   or noise:gaussian, see aggregator/fusion/teachers/unlabeled.py
    none

Samples of another dataset are normalised by the task's mean and std, as all inputs of the aggregator are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from aggregator.fusion.teachers.unlabeled import check_inputs, choose, load_source
from core.errors import ConfigError, DataError, did_you_mean
from fleet.data import DATASETS, Dataset, load
from fleet.data.dataset import Array
from fleet.partition import fedrad_server
from fleet.simulation.seeds import numpy_rng

__all__ = ["WITHHELD", "take_source"]

WITHHELD = 1 / 6


def take_source(
    text: str,
    dataset: Dataset,
    *,
    size: int | None = None,
    classes: Sequence[int] = (),
    fraction: float = 1.0,
    seed: int = 0,
) -> tuple[torch.Tensor | None, Dataset]:
    """The aggregator's samples, preprocessed for its models, and the remaining dataset for the devices.

    `classes`, `fraction` and `size` select among the samples, in this order; samples not selected are not used at all.
    """
    if text == "none":
        return None, dataset
    if text == "auto":
        server, rest = fedrad_server(len(dataset.y_train), probability=WITHHELD, seed=numpy_rng(seed, "withheld"))
        rows = server[
            choose(
                "auto", len(server), dataset.y_train[server], size=size, fraction=fraction, classes=classes, seed=seed
            )
        ]
        left = replace(dataset, x_train=dataset.x_train[rest], y_train=dataset.y_train[rest])
        return _inputs(dataset, dataset.x_train[rows]), left
    if _is_dataset(text):
        pool = _other(text, dataset)
        rows = choose(text, len(pool.y_train), pool.y_train, size=size, fraction=fraction, classes=classes, seed=seed)
        x = _inputs(dataset, pool.x_train[rows])
    else:
        x = load_source(
            text,
            dataset.input_shape,
            tokens=dataset.vocab,
            size=size,
            fraction=fraction,
            classes=classes,
            seed=seed,
        )
    return check_inputs(text, x, dataset.input_shape, dataset.vocab), dataset


def _is_dataset(text: str) -> bool:
    if text in DATASETS or text.endswith((".csv", ".csv.gz")) or Path(text).expanduser().is_dir():
        return True
    if text.startswith("noise") or "." in text or "/" in text:
        return False
    known = ["auto", "none", "noise", *DATASETS]
    raise ConfigError(f"--source {text!r}: give a path, or one of {' '.join(known)}{did_you_mean(text, known)}")


def _other(text: str, dataset: Dataset) -> Dataset:
    if text == dataset.name:
        raise ConfigError(f"--source {text}: that is the devices' own data; give auto, which holds out a part of it")
    if dataset.vocab is None:
        pool = load(text)
    else:
        pool = load(text, vocab=dataset.vocab, length=dataset.input_shape[0])
    if pool.kind != dataset.kind or pool.x_train.dtype != dataset.x_train.dtype:
        raise DataError(f"--source {text}: {_what(pool)}, but {dataset.name} is {_what(dataset)}; give one of its kind")
    if pool.input_shape != dataset.input_shape:
        sizes = ["x".join(map(str, shape)) for shape in (pool.input_shape, dataset.input_shape)]
        raise DataError(
            f"--source {text}: its samples are {sizes[0]}, those of {dataset.name} {sizes[1]}; "
            "give one of the same size and number of channels"
        )
    return pool


def _what(dataset: Dataset) -> str:
    return f"{dataset.kind} in {dataset.x_train.dtype}"


def _inputs(dataset: Dataset, x: Array) -> torch.Tensor:
    return torch.from_numpy(dataset.inputs(x))
