"""Datasets from what a program gives."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from core.errors import ConfigError, DataError
from fleet.data import load
from fleet.data.given.own import data_name, own_data
from tests.fleet.data.given.test_samples import Items

X, Y = np.arange(40 * 9, dtype=np.float64).reshape(40, 3, 3), np.arange(40) % 3


@pytest.mark.parametrize(
    ("thing", "sizes"),
    [
        ((X, Y), (31, 9)),
        ((X, Y, X[:5], Y[:5]), (40, 5)),
        (((X, Y), (X[:5], Y[:5])), (40, 5)),
        ({"x": X, "y": Y}, (31, 9)),
        ({"x_train": X, "y_train": Y, "x_test": X[:5], "y_test": Y[:5]}, (40, 5)),
        ({"train": (X, Y), "validation": (X[:5], Y[:5])}, (40, 5)),
        (lambda: (X, Y), (31, 9)),
    ],
)
def test_parts_are_train_and_test(thing: Any, sizes: tuple[int, int]) -> None:
    made = own_data("mine", thing)
    assert (made.name, made.kind, made.input_shape) == ("mine", "image", (1, 3, 3))
    assert (len(made.y_train), len(made.y_test)) == sizes


def test_names_of_classes_stay_also_of_those_without_samples() -> None:
    made = own_data("mine", (Items(picture=True), Items(picture=True)))
    assert made.class_names == ("a", "b", "c")
    assert made.y_train.tolist() == [0, 1, 1, 2]
    few = SimpleNamespace(tensors=(X[:6], np.array([0, 2] * 3)), classes=("a", "b", "c"))
    assert own_data("mine", (few, few)).y_train.tolist() == [0, 2] * 3


def test_a_dataset_of_ours_keeps_its_samples() -> None:
    digits = load("digits")
    assert own_data("mine", digits).x_train is digits.x_train
    name, made = data_name(digits)
    assert name == made.name
    assert name.startswith("dataset-")
    assert data_name((X, Y))[0].startswith("arrays-")


def test_mistakes_are_one_line() -> None:
    with pytest.raises(DataError, match="no 'x_train' among images; give x_train"):
        own_data("mine", {"images": X})
    with pytest.raises(ConfigError, match=r"dataset mine failed \(ZeroDivisionError"):
        own_data("mine", lambda: 1 / 0)
