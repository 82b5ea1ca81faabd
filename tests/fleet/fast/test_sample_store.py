"""Samples are read where they lie, and become inputs by the mini-batch, to the bits of a dataset's own way."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fleet.data import Dataset
from fleet.fast.sample_store import Shelf, view_of

RNG = np.random.default_rng(0)


def dataset(x: np.ndarray, **how) -> Dataset:
    y = np.arange(len(x)) % 2
    kind = "image" if x.ndim == 4 else "features"
    return Dataset(name="d", kind=kind, x_train=x, y_train=y, x_test=x, y_test=y, class_names=("a", "b"), **how)


IMAGES = RNG.integers(0, 256, (20, 3, 4, 5), np.uint8)
FEATURES = RNG.normal(size=(20, 7)).astype(np.float32)
COLOURS = {"mean": (120.0, 130.0, 99.5), "std": (60.0, 61.0, 62.0)}


@pytest.mark.parametrize(
    "data",
    [
        dataset(IMAGES, mean=(127.5,), std=(127.5,)),
        dataset(IMAGES, **COLOURS),
        dataset(FEATURES),
        dataset(FEATURES, mean=tuple(range(7)), std=(2.0,) * 7),
    ],
    ids=["grey bytes", "colours", "as stored", "features"],
)
def test_a_mini_batch_has_the_bits_of_the_datasets_inputs(data: Dataset) -> None:
    rows = np.array([3, 17, 3, 0])
    wanted = torch.from_numpy(data.train_inputs(rows)).flatten(1)
    shelf = Shelf.of(data)
    for out in (torch.empty(2, 2, wanted.shape[1]), torch.empty(2, 3, wanted.shape[1])[:, :2]):
        shelf.take(torch.from_numpy(rows), out)
        assert torch.equal(out.reshape(4, -1), wanted)


def test_nothing_is_copied_to_make_a_shelf() -> None:
    data = dataset(IMAGES)
    assert Shelf.of(data).x.data_ptr() == data.x_train.ctypes.data
    assert Shelf.of(data).mean is None
    assert Shelf.of(replace(data, std=(2.0,))).scale is not None
    assert view_of(data.x_train).tolist() == data.x_train.tolist()  # it is read-only; a warning would fail this test
