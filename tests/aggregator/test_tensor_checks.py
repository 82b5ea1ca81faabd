"""Names, shapes, dtypes and values of tensors that can be fused, and the words about those that cannot."""

from __future__ import annotations

import numpy as np
import pytest

from aggregator.tensor_checks import (
    LARGEST,
    LARGEST_VARIANCE,
    Published,
    check_extra,
    check_names,
    check_values,
    describe_model,
)
from core.errors import DeviceError
from wire.tensors import Packed

pytestmark = pytest.mark.light


HUGE = np.array(3e38, np.float32)


SOME = np.ones((2, 3), np.int8)


def packed(bits: int = 1, scale: object = np.float16(0.5), mean: object = None, levels: np.ndarray = SOME) -> Packed:
    return Packed(bits=bits, levels=levels, scale=np.asarray(scale), mean=None if mean is None else np.asarray(mean))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("predictor.bias", np.ones(2, np.uint8), "'predictor.bias' is uint8, expected float16 or float32"),
        ("predictor.bias", np.ones(2, np.int64), "'predictor.bias' is int64"),
        ("predictor.weight", np.ones((2, 3), np.int8), "'predictor.weight' is int8"),
        ("predictor.bias", np.array([1, 2e6], np.float32), r"'predictor.bias' has a value of 2e\+06, at most 1e\+06"),
        ("predictor.bias", np.array([1, -3e38], np.float32), "'predictor.bias' has a value"),
        ("predictor.weight", packed(scale=HUGE), "'predictor.weight' has a value of 3e"),
        ("predictor.weight", packed(scale=HUGE, mean=HUGE), "'predictor.weight' has a value of 6e"),
        ("predictor.weight", packed(bits=2), "'predictor.weight' is 2-bit levels, the prototype has 1"),
        ("predictor.weight", packed(bits=8), "'predictor.weight' is 8-bit levels"),
        ("predictor.bias", packed(levels=SOME[:, 0]), "'predictor.bias' is 1-bit levels, expected float"),
        (
            "extractor.running_var",
            np.array([1, -1e-9], np.float32),
            "'extractor.running_var' has a negative variance",
        ),
        ("extractor.running_var", np.array([1, 2e12], np.float32), "'extractor.running_var' has a value of 2e"),
        ("extractor.steps", np.ones(1, np.int32), "'extractor.steps' is int32, expected int64"),
        ("extractor.steps", np.ones(1, np.float32), "'extractor.steps' is float32, expected int64"),
        ("extractor.steps", np.full(1, 2**40), "'extractor.steps' has an integer outside"),
        ("extractor.num_batches_tracked", np.full(1, -1), "has an integer outside of 0 .."),
    ],
)
def test_a_value_that_cannot_be_fused_is_refused_by_its_name(name: str, value: object, words: str) -> None:
    with pytest.raises(DeviceError, match=words):
        check_values({name: value}, PUBLISHED, "mlp:w1", "state")


PUBLISHED = Published(
    shapes={},
    integers={name: np.dtype(np.int64) for name in ("extractor.steps", "extractor.num_batches_tracked")},
    reach={"predictor.bias": 0.5},
)


def test_values_at_the_bounds_pass() -> None:
    sound = {
        "predictor.bias": np.array([LARGEST, -LARGEST], np.float32),
        "predictor.weight": packed(scale=np.float32(LARGEST)),
        "extractor.running_var": np.array([0, LARGEST_VARIANCE], np.float32),
        "extractor.steps": np.array([2**31 - 1]),
        "extractor.halves": np.array([65504], np.float16),
    }
    check_values(sound, PUBLISHED, "mlp:w1", "state")
    with pytest.raises(DeviceError, match=r"'predictor.weight' is 1-bit levels, expected float16 or float32"):
        check_values(sound, PUBLISHED, "mlp:fp32", "state")


def test_a_model_that_has_gone_far_does_not_lock_its_fleet_out() -> None:
    far = Published(shapes={}, reach={"predictor.bias": 3e6})
    check_values({"predictor.bias": np.array([5e6], np.float32)}, far, "mlp:w1", "state")
    with pytest.raises(DeviceError, match=r"at most 6e\+06"):
        check_values({"predictor.bias": np.array([7e6], np.float32)}, far, "mlp:w1", "state")


def test_a_delta_has_levels_of_any_bits_and_its_sum_with_the_model_stays_finite() -> None:
    for bits in (1, 2, 4, 8):
        check_values({"predictor.bias": packed(bits, levels=SOME[:, 0])}, PUBLISHED, "mlp:fp32", "delta")
    check_values({"extractor.running_var": np.array([-1.0], np.float32)}, PUBLISHED, "mlp:fp32", "delta")
    with pytest.raises(DeviceError, match=r"'predictor.bias' has a value"):
        check_values({"predictor.bias": packed(8, HUGE, levels=SOME[:, 0])}, PUBLISHED, "mlp:fp32", "delta")


SHAPES = {"predictor.weight": (2, 3), "predictor.bias": (2,), "extractor.w": (4,)}
WHOLE = {name: np.ones(shape, np.float32) for name, shape in SHAPES.items()}


def test_names_are_those_of_the_kind_of_update() -> None:
    predictor = {name: value for name, value in WHOLE.items() if name.startswith("predictor")}
    for tensors, kind in ((WHOLE, "state"), (WHOLE, "delta"), (predictor, "predictor"), ({}, "logits"), ({}, "none")):
        check_names(tensors, SHAPES, kind)
    for tensors, kind, words in (
        (predictor, "state", "'extractor.w' is missing"),
        (WHOLE, "predictor", "'extractor.w' is unexpected"),
        (predictor, "none", "'predictor.bias' is unexpected"),
        ({**WHOLE, "predictor.weight": packed(levels=SOME.T)}, "state", r"is \(3, 2\), expected \(2, 3\)"),
    ):
        with pytest.raises(DeviceError, match=words):
            check_names(tensors, SHAPES, kind)


def test_a_model_is_described_by_what_updates_of_it_must_be_like() -> None:
    described = describe_model(
        {
            "w": Packed(bits=1, levels=SOME, scale=np.array([0.5, 2.0], np.float16), mean=np.array([1, 0], np.float16)),
            "b": np.array([-3.0, 1.0], np.float16),
            "n": np.array([7], np.int64),
            "none": np.zeros((0, 2), np.float32),
        }
    )
    assert described.shapes == {"w": (2, 3), "b": (2,), "n": (1,), "none": (0, 2)}
    assert described.integers == {"n": np.dtype(np.int64)}
    assert described.reach == {"w": 2.0, "b": 3.0, "n": 7.0, "none": 0.0}


def test_logits_by_label_are_square_floats_and_needed_where_nothing_else_comes() -> None:
    check_extra({}, "state", 2)
    check_extra({"label-logits": np.ones((2, 2), np.float16)}, "logits", 2)
    for extra, words in (
        ({}, "without 'label-logits'"),
        ({"label-logits": np.ones((2, 3), np.float32)}, r"is \(2, 3\), expected \(2, 2\)"),
        ({"label-logits": np.ones((2, 2), np.float64)}, "is float64"),
        ({"label-logits": packed(levels=SOME[:, :2])}, "is 1-bit levels"),
        ({"label-logits": np.full((2, 2), 2 * LARGEST, np.float32)}, "has a value"),
    ):
        with pytest.raises(DeviceError, match=words):
            check_extra(extra, "logits", 2)


def test_no_value_that_is_not_a_number_passes() -> None:
    with pytest.raises(DeviceError, match=r"'predictor\.bias' has a value of nan"):
        check_values({"predictor.bias": np.array([np.nan], np.float32)}, PUBLISHED, "mlp:w1", "state")
