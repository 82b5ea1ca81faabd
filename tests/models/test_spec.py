"""Prototypes as values."""

from dataclasses import FrozenInstanceError, replace

import pytest

from core.errors import ConfigError
from models.spec import PrototypeSpec, parse_prototype
from quant.precision import FP32, PRECISIONS, Precision

pytestmark = pytest.mark.light
SPEC = PrototypeSpec("resnet8-gn", Precision(1, None), (3, 32, 32), 10)


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_what_a_spec_prints_parses_back(precision: Precision) -> None:
    assert parse_prototype(str(replace(SPEC, precision=precision))) == ("resnet8-gn", precision)


def test_the_name_is_architecture_colon_precision() -> None:
    assert str(SPEC) == "resnet8-gn:w1"


def test_a_bare_architecture_is_float() -> None:
    assert parse_prototype("cnn") == ("cnn", FP32)


def test_an_unknown_architecture_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"unknown architecture 'resnet9'; did you mean 'resnet8'\?"):
        parse_prototype("resnet9:w1")


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown precision 'w3'"):
        parse_prototype("cnn:w3")


@pytest.mark.parametrize("text", ["cnn:", ":w1", "", "cnn:w1:w1", "CNN:w1"])
def test_a_malformed_name_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_prototype(text)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 32), (3, -1, 4)])
def test_an_input_without_positive_sizes_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="resnet8-gn:w1: the input shape"):
        replace(SPEC, input_shape=shape)


def test_one_class_is_refused() -> None:
    with pytest.raises(ConfigError, match="1 classes"):
        replace(SPEC, classes=1)


def test_a_latent_width_of_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="latent width 0"):
        replace(SPEC, latent=0)


def test_a_spec_cannot_be_changed_and_can_be_a_key() -> None:
    with pytest.raises(FrozenInstanceError):
        SPEC.classes = 3
    assert {SPEC: 1}[PrototypeSpec("resnet8-gn", Precision(1, None), (3, 32, 32), 10)] == 1
