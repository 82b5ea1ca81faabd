"""Unlabeled samples: files, noise and generators, checked against the task and the same for the same seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from aggregator.fusion.teachers.unlabeled import SIZE, load_source
from core.errors import ConfigError, DataError

X = np.arange(24, dtype=np.float32).reshape(12, 2)
Y = np.array([0, 0, 1, 1, 2, 2, 0, 1, 2, 0, 1, 2])


def pool(folder: Path, **arrays: np.ndarray) -> str:
    path = folder / "pool.npz"
    np.savez(path, **(arrays or {"x": X, "y": Y}))
    return str(path)


def rows(x: Tensor) -> list[int]:
    """Which rows of X these are."""
    return [int(v) // 2 for v in x[:, 0]]


def test_a_file_needs_inputs_and_nothing_else(tmp_path: Path) -> None:
    assert torch.equal(load_source(pool(tmp_path, x=X), (2,)), torch.from_numpy(X))


def test_labels_of_a_file_are_not_even_read(tmp_path: Path) -> None:
    labels = np.array([np.nan, -3.0])
    assert len(load_source(pool(tmp_path, x=X, y=labels), (2,))) == 12


def test_a_path_object_serves_too(tmp_path: Path) -> None:
    assert len(load_source(Path(pool(tmp_path)), (2,))) == 12


def test_classes_then_fraction_then_size(tmp_path: Path) -> None:
    path = pool(tmp_path)
    assert rows(load_source(path, (2,), classes=[2])) == [4, 5, 8, 11]
    half = rows(load_source(path, (2,), classes=[1, 2], fraction=0.5))
    assert len(half) == 4
    assert half == sorted(half)
    assert set(half) <= {2, 3, 4, 5, 7, 8, 10, 11}
    assert len(load_source(path, (2,), classes=[1, 2], fraction=0.5, size=3)) == 3


def test_the_seed_decides_which_samples(tmp_path: Path) -> None:
    path = pool(tmp_path)
    draws = [rows(load_source(path, (2,), size=5, seed=seed)) for seed in (0, 0, 1, 2)]
    assert draws[0] == draws[1]
    assert len({tuple(d) for d in draws}) == 3


def test_bytes_are_normalised_as_the_file_says(tmp_path: Path) -> None:
    path = pool(tmp_path, x=np.full((3, 1, 2, 2), 255, np.uint8), mean=np.array(127.5), std=np.array(127.5))
    assert load_source(path, (1, 2, 2)).unique().tolist() == [1.0]


def test_token_ids_are_int64_and_within_the_vocabulary(tmp_path: Path) -> None:
    path = pool(tmp_path, x=np.array([[1, 2, 9], [4, 0, 0]], np.int32))
    ids = load_source(path, (3,), tokens=10)
    assert ids.dtype == torch.int64
    assert ids.tolist() == [[1, 2, 9], [4, 0, 0]]
    with pytest.raises(DataError, match="token ids from 0 to 9, the task has 0 to 8"):
        load_source(path, (3,), tokens=9)


@pytest.mark.parametrize(
    ("arrays", "options", "says"),
    [
        ({"y": Y}, {}, "no array 'x'"),
        ({"x": X}, {"classes": [1]}, "no array 'y'"),
        ({"x": X[:, 0]}, {}, "give one or more inputs"),
        ({"x": X[:0]}, {}, "give one or more inputs"),
        ({"x": X, "y": Y[:3]}, {"classes": [1]}, "for 3 labels"),
        ({"x": np.full((2, 2), np.nan, np.float32)}, {}, "NaN or infinity"),
        ({"x": X.reshape(12, 1, 2)}, {}, "its samples are 1x2, the task's 2"),
        ({"x": X.astype(np.int64)}, {}, "int64, the task takes float32"),
        ({"x": X}, {"tokens": 100}, "float32, the task takes token ids"),
        ({"x": X, "y": Y}, {"classes": [1, 7]}, "no sample of class 7; it has 0 1 2"),
        ({"x": X}, {"size": 13}, "13 samples wanted, there are 12"),
        ({"x": X}, {"size": 0}, "0 samples wanted"),
        ({"x": X}, {"fraction": 0.0}, "above 0 and at most 1"),
        ({"x": X}, {"fraction": 1.5}, "above 0 and at most 1"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(tmp_path: Path, arrays: dict, options: dict, says: str) -> None:
    with pytest.raises((DataError, ConfigError), match=says) as caught:
        load_source(pool(tmp_path, **arrays), (2,), **options)
    assert "pool.npz" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for name in ("nothing.npz", "nothing.onnx"):
        with pytest.raises(DataError, match=f"{name}: No such file"):
            load_source(str(tmp_path / name), (2,))


@pytest.mark.parametrize("what", ["noise", "noise:gaussian"])
def test_noise_follows_the_seed_and_has_a_size_of_its_own(what: str) -> None:
    first, again, other = (load_source(what, (2,), seed=seed) for seed in (0, 0, 1))
    assert len(first) == SIZE
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_noise_has_no_classes_and_no_fraction() -> None:
    for options in ({"classes": [1]}, {"fraction": 0.5}):
        with pytest.raises(ConfigError, match="no classes and no end"):
            load_source("noise", (2,), **options)
    with pytest.raises(ConfigError, match="at least 1"):
        load_source("noise", (2,), size=0)


def test_what_is_no_source_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"give an \.npz with x, a generator as \.onnx, noise or noise:gaussian"):
        load_source("niose", (2,))
