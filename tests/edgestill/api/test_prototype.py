"""`es.prototype`."""

from typing import Any

import pytest
from torch import nn

import edgestill as es
from core.errors import ConfigError
from models.own.network import OwnNetwork
from tests.models.own.nets import Net


def test_it_has_the_class_name_precision_and_predictor() -> None:
    made = es.prototype(Net, "w1", predictor="fc2")
    assert str(made) == "Net:w1"
    assert isinstance(made.network, OwnNetwork)
    assert made.network.predictor == "fc2"
    assert str(es.prototype(Net(), name="Other")) == "Other:fp32"


def architecture(layers: Any, input_shape: tuple[int, ...]) -> nn.Module:
    return nn.Flatten()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: es.prototype(Net, "w3"), "w3"),
        (lambda: es.prototype(Net, name="my net"), "'my net' is no name"),
        (lambda: es.prototype(architecture, predictor="fc"), "predictor is for networks that return logits"),
        (lambda: es.prototype("cnn"), "is a str; give an nn.Module class"),
    ],
)
def test_mistakes_are_one_line(make: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make()
