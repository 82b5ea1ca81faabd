"""Slicing and merging state dicts by role, here on NumPy arrays and wire tensors; torch's are in test_split.py."""

from dataclasses import dataclass

import numpy as np
import pytest

from core.errors import ModelError
from models.roles import ROLES, merge_state, role_of, slice_state

pytestmark = pytest.mark.light


def state(fill: float = 0.0) -> dict[str, np.ndarray]:
    return {
        "extractor.body.fc.weight": np.full((4, 3), fill),
        "predictor.weight": np.full((2, 4), fill),
        "predictor.bias": np.full(2, fill),
    }


def test_a_slice_has_the_tensors_of_its_role_under_their_full_names() -> None:
    assert list(slice_state(state(), "predictor")) == ["predictor.weight", "predictor.bias"]
    assert list(slice_state(state(), "extractor")) == ["extractor.body.fc.weight"]


def test_the_slices_of_all_roles_are_the_whole() -> None:
    whole = state()
    assert {name: v for role in ROLES for name, v in slice_state(whole, role).items()} == whole


def test_a_slice_shares_the_values() -> None:
    whole = state()
    assert slice_state(whole, "predictor")["predictor.bias"] is whole["predictor.bias"]


@pytest.mark.parametrize("name", ["predictors.weight", "head.weight", "", "bias.predictor"])
def test_a_name_without_a_role_is_refused(name: str) -> None:
    with pytest.raises(ModelError, match=r"must start with extractor\. or predictor\."):
        role_of(name)


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(ModelError, match="unknown role 'generator'"):
        slice_state(state(), "generator")


def test_merging_replaces_the_part_and_leaves_both_inputs_alone() -> None:
    old, new = state(0.0), slice_state(state(1.0), "predictor")
    merged = merge_state(old, new)
    assert {name: float(v.flat[0]) for name, v in merged.items()} == {
        "extractor.body.fc.weight": 0.0,
        "predictor.weight": 1.0,
        "predictor.bias": 1.0,
    }
    assert float(old["predictor.bias"][0]) == 0.0
    assert list(new) == ["predictor.weight", "predictor.bias"]


def test_a_tensor_the_model_does_not_have_is_refused() -> None:
    with pytest.raises(ModelError, match=r"'predictor.scale' has no counterpart"):
        merge_state(state(), {"predictor.scale": np.zeros(2)})


def test_a_tensor_of_another_shape_is_refused() -> None:
    with pytest.raises(ModelError, match=r"'predictor.bias' is \(3,\), expected \(2,\)"):
        merge_state(state(), {"predictor.bias": np.zeros(3)})


def test_a_packed_tensor_has_the_shape_of_its_levels() -> None:
    @dataclass
    class Packed:  # as in wire.tensors
        levels: np.ndarray

    packed = Packed(np.ones((2, 4), np.int8))
    assert merge_state(state(), {"predictor.weight": packed})["predictor.weight"] is packed
    with pytest.raises(ModelError, match=r"is \(4, 2\)"):
        merge_state(state(), {"predictor.weight": Packed(packed.levels.T)})
