"""A Dataset is consistent or it is refused; normalisation and the held-out part."""

from typing import Any

import numpy as np
import pytest

from core.errors import DataError
from fleet.data import Dataset, hold_out


def tiny(**changes: Any) -> Dataset:
    fields: dict[str, Any] = {
        "name": "tiny",
        "kind": "image",
        "x_train": np.arange(8, dtype=np.uint8).reshape(4, 1, 1, 2),
        "y_train": np.array([0, 1, 0, 1]),
        "x_test": np.zeros((1, 1, 1, 2), np.uint8),
        "y_test": np.array([1]),
        "class_names": ("a", "b"),
        "mean": (4.0,),
        "std": (2.0,),
    }
    return Dataset(**{**fields, **changes})


def test_inputs_are_normalised_in_stored_units() -> None:
    x = tiny().inputs(tiny().x_train[1:3])
    assert x.dtype == np.float32
    assert x.reshape(-1).tolist() == [-1.0, -0.5, 0.0, 0.5]  # (2, 3, 4, 5) - 4, by 2


def test_each_channel_has_its_own_mean() -> None:
    data = tiny(
        x_train=np.full((4, 2, 1, 1), 10, np.uint8),
        x_test=np.zeros((1, 2, 1, 1), np.uint8),
        mean=(10.0, 0.0),
        std=(1.0, 5.0),
    )
    assert data.inputs(data.x_train[:1]).reshape(-1).tolist() == [0.0, 2.0]


def test_no_samples_make_no_inputs() -> None:
    assert tiny().inputs(np.zeros((0, 1, 1, 2), np.uint8)).shape == (0, 1, 1, 2)


def test_token_ids_pass_as_they_are_in_a_new_array() -> None:
    ids = np.array([[1, 0]] * 4)
    data = tiny(kind="text", x_train=ids, x_test=ids[:1], vocab=2)
    given = data.inputs(data.x_train)
    assert given.tolist() == ids.tolist()
    assert given.flags.writeable


def test_a_test_part_is_copied_only_to_be_normalised() -> None:
    assert tiny().test_inputs().reshape(-1).tolist() == [-2.0, -2.0]
    stored = np.zeros((1, 1, 1, 2), np.float32)
    plain = tiny(x_train=np.ones((4, 1, 1, 2), np.float32), x_test=stored, mean=(0.0,), std=(1.0,))
    assert plain.test_inputs() is stored
    assert tiny(x_train=plain.x_train, x_test=stored).test_inputs().reshape(-1).tolist() == [-2.0, -2.0]


def test_a_sample_that_is_not_finite_is_named_wherever_it_is() -> None:
    x = np.zeros((2000, 1, 1, 2), np.float32)
    x[1500, 0, 0, 1] = np.nan
    with pytest.raises(DataError, match="train sample 1500 holds NaN or infinity"):
        tiny(x_train=x, y_train=np.arange(2000) % 2, x_test=x[:1])


def test_stored_arrays_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        tiny().x_train[0] = 1


def test_shape_and_classes_follow_from_the_data() -> None:
    assert (tiny().input_shape, tiny().classes) == ((1, 1, 2), 2)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"y_train": np.array([0, 1, 0])}, "4 train samples but 3 labels"),
        ({"y_train": np.array([0, 1, 0, 2])}, "labels run from 0 to 2, expected 0 to 1"),
        ({"y_test": np.array([-1])}, "labels run from -1 to -1"),
        ({"y_train": np.array([0.0, 1, 0, 1])}, "labels are float64"),
        ({"x_test": np.zeros((1, 1, 2, 2), np.uint8)}, r"train samples are \(1, 1, 2\), test samples \(1, 2, 2\)"),
        ({"x_train": np.zeros((4, 1, 1, 2), np.int32)}, "train samples are int32, expected uint8 or float32"),
        ({"class_names": ("a",), "y_train": np.zeros(4, np.int64), "y_test": np.array([0])}, "needs two or more"),
        ({"x_train": np.zeros((0, 1, 1, 2), np.uint8), "y_train": np.empty(0, np.int64)}, "no training samples"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(DataError, match=says):
        tiny(**changes)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_sample_that_is_not_finite_is_named(bad: float) -> None:
    x = np.zeros((4, 2), np.float32)
    x[2, 1] = bad
    with pytest.raises(DataError, match="train sample 2 holds NaN or infinity"):
        tiny(kind="features", x_train=x, x_test=np.zeros((1, 2), np.float32))


def test_token_ids_outside_the_vocabulary_are_refused() -> None:
    ids = np.array([[1, 0]] * 3 + [[2, 0]])
    with pytest.raises(DataError, match=r"token ids leave 0 \.\. 1"):
        tiny(kind="text", x_train=ids, x_test=ids[:1], vocab=2)


def test_holding_out_takes_the_same_share_of_each_class() -> None:
    labels = np.repeat([0, 1], [20, 10])
    data = tiny(
        x_train=np.arange(30, dtype=np.uint8).reshape(30, 1, 1, 1),
        y_train=labels,
        x_test=np.empty((0, 1, 1, 1), np.uint8),
        y_test=np.empty(0, np.int64),
    )
    split = hold_out(data, 0.2)
    assert np.bincount(split.y_test).tolist() == [4, 2]
    assert np.bincount(split.y_train).tolist() == [16, 8]
    together = np.concatenate([split.x_train, split.x_test]).reshape(-1)
    assert sorted(together.tolist()) == list(range(30))
    assert np.array_equal(hold_out(data, 0.2).x_test, split.x_test)
    assert not np.array_equal(hold_out(data, 0.2, seed=1).x_test, split.x_test)


def test_a_class_of_one_sample_stays_in_training() -> None:
    split = hold_out(tiny(y_train=np.array([0, 0, 0, 1])), 0.9)
    assert np.bincount(split.y_train).tolist() == [1, 1]
