"""The simulated aggregator's unlabeled samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from core.errors import ConfigError, DataError
from fleet.data import Dataset, load
from fleet.data.dataset import Kind
from fleet.simulation.inputs.unlabeled import take_source
from tests.data_here import needs


def dataset(kind: Kind = "image", *, samples: int = 600, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    if kind == "text":
        x, facts = rng.integers(0, 50, (samples, 6)), {"vocab": 50}
    else:
        x, facts = rng.integers(0, 256, (samples, 1, 4, 4)).astype(np.uint8), {"mean": (127.5,), "std": (127.5,)}
    y = np.arange(samples) % 3
    return Dataset(
        name="task",
        kind=kind,
        x_train=x,
        y_train=y,
        x_test=x[:6],
        y_test=y[:6],
        class_names=("a", "b", "c"),
        **facts,
    )


def keys(x: np.ndarray | torch.Tensor) -> set[bytes]:
    return {np.ascontiguousarray(row).tobytes() for row in np.asarray(x)}


def test_auto_withholds_a_sixth_from_the_devices() -> None:
    task = dataset()
    x, left = take_source("auto", task)
    assert x is not None
    assert len(x) + len(left.y_train) == 600
    assert 70 < len(x) < 130
    assert x.dtype == torch.float32
    assert not keys(x) & keys(task.inputs(left.x_train))
    assert keys(x) | keys(task.inputs(left.x_train)) == keys(task.inputs(task.x_train))
    assert left.x_test is task.x_test


def test_auto_follows_the_seed() -> None:
    first, again, other = (take_source("auto", dataset(), seed=seed)[0] for seed in (0, 0, 1))
    assert first is not None
    assert other is not None
    assert torch.equal(first, again)
    assert keys(first) != keys(other)


def test_what_auto_does_not_use_goes_to_nobody() -> None:
    task = dataset()
    whole, left = take_source("auto", task)
    few, same = take_source("auto", task, classes=[1], size=10)
    assert whole is not None
    assert few is not None
    assert len(few) == 10
    assert keys(few) < keys(whole)
    assert keys(few) <= keys(task.inputs(task.x_train[task.y_train == 1]))
    assert np.array_equal(left.y_train, same.y_train)


def test_none_leaves_everything_to_the_devices() -> None:
    task = dataset()
    assert take_source("none", task) == (None, task)


def test_noise_has_the_shape_of_the_task() -> None:
    x, left = take_source("noise", dataset(), size=7)
    assert x is not None
    assert x.shape == (7, 1, 4, 4)
    assert len(left.y_train) == 600
    ids, _ = take_source("noise", dataset("text"), size=7)
    assert ids is not None
    assert ids.shape == (7, 6)
    assert ids.max() < 50


def test_a_file_is_used_as_it_is(tmp_path: Path) -> None:
    pool = np.random.default_rng(0).standard_normal((9, 1, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "pool.npz", x=pool)
    x, _ = take_source(str(tmp_path / "pool.npz"), dataset())
    assert x is not None
    assert np.array_equal(x.numpy(), pool)


def test_a_table_serves_a_task_of_its_kind(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b,label\n" + "".join(f"{i},{-i},{i % 2}\n" for i in range(20)))
    table = load(path)
    x, _ = take_source(str(path), table, size=4)
    assert x is not None
    assert keys(x) < keys(table.inputs(table.x_train))
    with pytest.raises(DataError, match="features in float32, but task is image in uint8"):
        take_source(str(path), dataset())


def test_another_dataset_of_the_registry_must_have_the_task_s_shape() -> None:
    task = load("digits")
    with pytest.raises(ConfigError, match="the devices' own data; give auto"):
        take_source("digits", task)
    pool = dataset()
    with pytest.raises(DataError, match="--source digits: "):
        take_source("digits", pool)


def test_an_unknown_name_is_met_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'fashion_mnist'"):
        take_source("fashion-mnist", dataset())
    with pytest.raises(ConfigError, match=r"give an \.npz"):
        take_source("noise:pink", dataset())


@pytest.mark.data
def test_fashion_serves_mnist_and_not_cifar() -> None:
    needs("mnist", "fashion_mnist", "cifar10")
    mnist = load("mnist")
    x, left = take_source("fashion_mnist", mnist, size=50, classes=[0, 1])
    assert x is not None
    assert x.shape == (50, 1, 28, 28)
    assert x.min().item() == mnist.inputs(np.zeros((1, 1, 28, 28), np.uint8)).min(), "the task's normalisation"
    assert left is mnist
    with pytest.raises(DataError, match="its samples are 1x28x28, those of cifar10 3x32x32"):
        take_source("fashion_mnist", load("cifar10"))


@pytest.mark.data
def test_text_of_another_corpus_gets_the_task_s_vocabulary_and_length() -> None:
    needs("ag_news", "sst2")
    news = load("ag_news", vocab=100, length=12)
    x, _ = take_source("sst2", news, size=20)
    assert x is not None
    assert x.shape == (20, 12)
    assert x.max() < 100
