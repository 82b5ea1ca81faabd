"""What may be given for an own network."""

import functools

import pytest
from torch import nn

from core.errors import ConfigError
from models.own.network import OwnNetwork, OwnPrototype, is_architecture, own_network


def make() -> nn.Module:
    return nn.Linear(2, 2)


def architecture(layers: object, input_shape: tuple[int, ...]) -> nn.Module:
    return nn.Flatten()


@pytest.mark.parametrize("thing", [nn.Linear, nn.Linear(2, 2), make, functools.partial(make)])
def test_classes_instances_and_functions_are_networks(thing: object) -> None:
    made = own_network("Mine", thing)
    assert isinstance(made, OwnNetwork)
    assert (made.name, made.make) == ("Mine", thing)


def test_a_function_of_layers_is_an_architecture() -> None:
    assert own_network("Mine", architecture) is architecture
    assert is_architecture(architecture)
    assert not is_architecture(make)


def test_a_prototype_is_its_network() -> None:
    network = OwnNetwork(name="Mine", make=make)
    assert own_network("Mine", OwnPrototype(name="Mine", network=network)) is network
    assert str(OwnPrototype(name="Mine", network=network, precision="w1")) == "Mine:w1"


@pytest.mark.parametrize("thing", [3, "cnn", dict, object()])
def test_anything_else_is_refused_by_name(thing: object) -> None:
    with pytest.raises(ConfigError, match=r"prototype Mine: is a .*; give an nn.Module class"):
        own_network("Mine", thing)
