"""Precisions are parsed by name, and a wrong name is told with what would be right."""

from __future__ import annotations

import dataclasses

import pytest

from core.errors import ConfigError
from quant.precision import FP32, PRECISIONS, Precision, parse_precision

pytestmark = pytest.mark.light


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_a_precision_is_parsed_from_its_own_name(precision: Precision) -> None:
    assert parse_precision(str(precision)) == precision


def test_the_six_known_names_are_these() -> None:
    assert [str(p) for p in PRECISIONS] == ["fp32", "w8a8", "w4a4", "w2a2", "w1", "w1a1"]


def test_w1_has_float_activations_and_w1a1_has_not() -> None:
    assert parse_precision("w1") == Precision(weight_bits=1, act_bits=None)
    assert parse_precision("w1a1") == Precision(weight_bits=1, act_bits=1)


def test_only_fp32_is_not_quantized() -> None:
    assert [p for p in PRECISIONS if not p.quantized] == [FP32]


def test_a_near_miss_is_told_the_right_name() -> None:
    with pytest.raises(ConfigError, match=r"unknown precision 'w8a9'; did you mean 'w8a8'\?.* known: fp32 w8a8"):
        parse_precision("w8a9")


@pytest.mark.parametrize("text", ["", "W1", " w1", "int8", "w3a3", "w1a8"])
def test_an_unknown_name_is_refused_with_all_known_ones(text: str) -> None:
    with pytest.raises(ConfigError, match="known: fp32 w8a8 w4a4 w2a2 w1 w1a1") as caught:
        parse_precision(text)
    assert "\n" not in str(caught.value)


def test_a_precision_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        FP32.weight_bits = 8  # type: ignore[misc]
