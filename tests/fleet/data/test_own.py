"""What a user's formats share."""

from pathlib import Path

import numpy as np
import pytest

from core.errors import DataError
from fleet.data.own import own_dataset, sorted_classes


def test_integer_labels_are_ordered_by_value_and_names_by_name() -> None:
    assert sorted_classes(["10", "9", "-1"]) == ["-1", "9", "10"]
    assert sorted_classes(np.array([10, 9])) == ["9", "10"]
    assert sorted_classes(["dog", "10", "cat"]) == ["10", "cat", "dog"]


def test_labels_of_both_parts_share_one_numbering() -> None:
    x = np.zeros((2, 1, 1, 1), np.uint8)
    data = own_dataset(Path("own"), "image", (x, ["b", "c"]), (x, ["a", "c"]))
    assert data.class_names == ("a", "b", "c")
    assert (data.y_train.tolist(), data.y_test.tolist()) == ([1, 2], [0, 2])


def test_features_are_standardised_by_the_training_part() -> None:
    x = np.array([[1.0, 5.0], [3.0, 5.0]], np.float32)
    data = own_dataset(Path("own"), "features", (x, ["a", "b"]), (x + 2, ["a", "b"]))
    assert data.inputs(data.x_train).tolist() == [[-1.0, 0.0], [1.0, 0.0]]  # the constant column becomes 0, not NaN
    assert data.inputs(data.x_test).tolist() == [[1.0, 2.0], [3.0, 2.0]]


def test_without_a_test_part_a_fifth_is_held_out() -> None:
    x = np.zeros((20, 1, 2, 2), np.float32)
    data = own_dataset(Path("own"), "image", (x, ["a", "b"] * 10))
    assert np.bincount(data.y_test).tolist() == [2, 2]
    assert (data.mean, data.std) == ((0.0,), (1.0,))  # floats are the user's own scale


def test_one_class_is_refused_by_its_name() -> None:
    with pytest.raises(DataError, match="own: every sample has the label 'a'"):
        own_dataset(Path("own"), "image", (np.zeros((2, 1, 1, 1), np.uint8), ["a", "a"]))
