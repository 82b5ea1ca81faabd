"""Shared by the partitions: generators, checks, and rounding of shares to counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from core.errors import ConfigError

__all__ = [
    "TRIES",
    "Indices",
    "Seed",
    "check_alpha",
    "check_devices",
    "cut_points",
    "generator",
    "nothing_valid",
    "of_class",
    "shuffled",
    "whole_counts",
]

Indices = npt.NDArray[np.int64]
Seed = int | np.random.Generator
TRIES = 1000  # maximum draws of a partition with a minimum size


def generator(seed: Seed) -> np.random.Generator:
    """The generator itself, or a new one with this seed."""
    return seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)


def check_devices(labels: npt.NDArray[np.integer], devices: int) -> None:
    """At least one device, and at least one sample for each."""
    if devices < 1:
        raise ConfigError(f"{devices} devices; give at least 1")
    if devices > len(labels):
        raise ConfigError(f"{devices} devices for {len(labels)} samples; give at most one device per sample")


def check_alpha(alpha: float) -> None:
    """A Dirichlet parameter is positive and finite."""
    if not (alpha > 0 and np.isfinite(alpha)):
        raise ConfigError(f"alpha {alpha}; give a positive number, small for heterogeneous devices")


def nothing_valid(name: str, tries: int, devices: int, alpha: float, min_size: float) -> ConfigError:
    """The error of a partition without any draw that satisfies its minimum size."""
    return ConfigError(
        f"partition {name}: no draw in {tries} gave each of {devices} devices {min_size:g} or more samples at alpha "
        f"{alpha:g}; take fewer devices, a larger alpha or a smaller min_size"
    )


def of_class(labels: npt.NDArray[np.integer]) -> list[Indices]:
    """The indices of each class that occurs, classes ascending, indices ascending."""
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


def cut_points(shares: npt.NDArray[np.float64], total: int) -> npt.NDArray[np.int64]:
    """Indices at which to cut `total` samples by shares that sum to 1: floors of the cumulative shares but the last."""
    # the epsilon corrects a cumulative sum just below an integer due to rounding
    return np.floor(np.cumsum(shares)[:-1] * total + 1e-9).astype(np.int64)


def whole_counts(shares: npt.NDArray[np.float64], total: int) -> npt.NDArray[np.int64]:
    """Non-negative integers that sum to `total` and follow the shares: largest remainders are rounded up."""
    exact = shares / shares.sum() * total
    counts: Indices = np.floor(exact).astype(np.int64)
    missing = total - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:missing]] += 1
    return counts


def shuffled(parts: Sequence[Sequence[Indices]], rng: np.random.Generator) -> list[Indices]:
    """Each device's pieces as one array in random order."""
    return [rng.permutation(np.concatenate(pieces)) for pieces in parts]
