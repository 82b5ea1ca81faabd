"""Sources of the aggregator's unlabeled samples, on which teachers run and students learn.

    pool.npz         samples from any domain: `x` as in models/samples.py; labels are not needed and not used
    noise            uniform in [-1, 1), as in FedDF's paper; token ids: uniform over the vocabulary
    noise:gaussian   Gaussian, each batch of 128 scaled to [-1, 1] by its minimum and maximum, as in its code
    generator.onnx   a pre-trained generator, noise -> x (`synthetic.py`); a torch module in Python

The same arguments give bit-identical samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from aggregator.fusion.teachers.synthetic import from_module, from_onnx, gaussian_noise, uniform_noise
from core.errors import ConfigError, DataError
from core.seeds import derive_seed
from models.samples import load_inputs
from models.seeding import torch_rng
from wire.messages import Task

__all__ = ["NOISE", "SIZE", "check_inputs", "choose", "load_source"]

NOISE = ("noise", "noise:gaussian")
SIZE = 10_000  # default of noise and generators


def load_source(
    source: str | Path | nn.Module,
    input_shape: tuple[int, ...],
    *,
    tokens: int | None = None,
    size: int | None = None,
    fraction: float = 1.0,
    classes: Sequence[int] = (),
    seed: int = 0,
    noise_shape: tuple[int, ...] = (),
    task: Task | None = None,
) -> Tensor:
    """Unlabeled inputs (N, *input_shape): float32, or int64 token ids below `tokens` if that is given.

    Of a file: the samples of `classes` (which needs its labels), of these `fraction`, of these `size`, drawn by `seed`
    and in the stored order. Noise and generators produce `size` samples; `noise_shape` is the input shape of a torch
    module, an ONNX file has its own. Bytes are normalised as the `task` says.
    """
    source = str(source) if isinstance(source, Path) else source
    if isinstance(source, str) and source.endswith(".npz"):
        path = Path(source).expanduser()
        x, y = load_inputs(path, labels=bool(classes), task=task)
        rows = choose(source, len(x), y, size=size, fraction=fraction, classes=classes, seed=seed)
        return check_inputs(source, torch.from_numpy(x[rows]), input_shape, tokens)
    if classes or fraction != 1:
        raise ConfigError(f"source {_name(source)}: it has no classes and no end; give a source size only")
    if size is not None and size < 1:
        raise ConfigError(f"source {_name(source)}: size {size}; give at least 1")
    count, generator = SIZE if size is None else size, torch_rng(seed, "source")
    samples = _make(source, count, generator, input_shape, tokens, noise_shape)
    return check_inputs(_name(source), samples, input_shape, tokens)


def _make(
    source: str | nn.Module,
    count: int,
    generator: torch.Generator,
    input_shape: tuple[int, ...],
    tokens: int | None,
    noise_shape: tuple[int, ...],
) -> Tensor:
    if isinstance(source, nn.Module):
        return from_module(source, noise_shape, count, generator)
    if source.endswith(".onnx"):
        return from_onnx(Path(source).expanduser(), count, generator)
    if source == "noise":
        return uniform_noise(count, input_shape, generator, tokens)
    if source == "noise:gaussian" and tokens is None:
        return gaussian_noise(count, input_shape, generator)
    if source == "noise:gaussian":
        raise ConfigError("source noise:gaussian: token ids have no Gaussian; give noise")
    raise ConfigError(f"source {source!r}: give an .npz with x, a generator as .onnx, {' or '.join(NOISE)}")


def _name(source: str | nn.Module) -> str:
    return source if isinstance(source, str) else type(source).__name__


def choose(
    name: str,
    count: int,
    y: NDArray[Any] | None = None,
    *,
    size: int | None = None,
    fraction: float = 1.0,
    classes: Sequence[int] = (),
    seed: int = 0,
) -> NDArray[np.int64]:
    """Ascending row numbers of the selected samples, out of `count` with labels `y`."""
    if not 0 < fraction <= 1:
        raise ConfigError(f"source {name}: fraction {fraction:g}; give a number above 0 and at most 1")
    rows = np.arange(count)
    if classes and y is not None:
        for label in classes:
            if not (y == label).any():
                raise DataError(f"{name}: no sample of class {label}; it has {_shown(np.unique(y))}")
        rows = np.flatnonzero(np.isin(y, list(classes)))
    there = max(round(fraction * len(rows)), 1)
    wanted = there if size is None else size
    if not 1 <= wanted <= there:
        raise DataError(f"{name}: {wanted} samples wanted, there are {there} to take; change the source's size")
    rng = np.random.default_rng(derive_seed(seed, "source"))
    return np.sort(rng.permutation(rows)[:wanted])


def _shown(labels: NDArray[Any], limit: int = 12) -> str:
    return " ".join(str(label) for label in labels[:limit]) + (" ..." if len(labels) > limit else "")


def check_inputs(name: str, x: Tensor, input_shape: tuple[int, ...], tokens: int | None) -> Tensor:
    """`x`, if it fits the task's models."""
    if tuple(x.shape[1:]) != tuple(input_shape):
        raise DataError(f"{name}: its samples are {_size(x.shape[1:])}, the task's {_size(input_shape)}")
    if tokens is None:
        if x.dtype != torch.float32:
            raise DataError(f"{name}: its samples are {_dtype(x)}, the task takes float32; give features or images")
        if not x.isfinite().all():
            raise DataError(f"{name}: a sample holds NaN or infinity")
        return x
    if x.dtype != torch.int64:
        raise DataError(f"{name}: its samples are {_dtype(x)}, the task takes token ids (int64)")
    if len(x) and not (x.min() >= 0 and x.max() < tokens):
        raise DataError(f"{name}: token ids from {int(x.min())} to {int(x.max())}, the task has 0 to {tokens - 1}")
    return x


def _dtype(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


def _size(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
