"""From a user's own network to a prototype."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import torch
from torch import nn

from core.errors import EdgestillError, ModelError
from models.own.network import OwnNetwork
from models.own.precision import with_precision
from models.own.split import split_network
from models.seeding import seeded
from models.spec import PrototypeSpec
from models.split import Extractor, Prototype
from quant.layers import layers_for

__all__ = ["build_own"]

#: Arguments that a class or function may take, and what they are given.
GIVEN = {
    "classes": lambda spec: spec.classes,
    "num_classes": lambda spec: spec.classes,
    "n_classes": lambda spec: spec.classes,
    "input_shape": lambda spec: spec.input_shape,
    "in_channels": lambda spec: spec.input_shape[0],
}


def build_own(spec: PrototypeSpec, network: OwnNetwork, *, generator: torch.Generator | None) -> Prototype:
    """The prototype of `spec`; with `spec.latent` of another width than the network's own, it gets an adapter to it."""
    layers = layers_for(spec.precision)
    with seeded(generator):
        net = _instance(spec, network)
        split = split_network(net, network, spec)
        body, predictor = split.body, split.predictor
        body.net = with_precision(body.net, layers, spec)
        extractor = Extractor(body, split.width, layers, spec.latent)
        if extractor.width == split.width:
            predictor = with_precision(predictor, layers, spec, acts=False)
        elif type(predictor) is nn.Linear:
            predictor = layers.linear(extractor.width, spec.classes, bias=predictor.bias is not None)
        else:
            raise ModelError(
                f"{spec}: its predictor takes a latent of {split.width}, the fleet's has {extractor.width}; give "
                f"latent={split.width}, or a predictor that is one nn.Linear"
            )
    return Prototype(spec, extractor, predictor)


def _instance(spec: PrototypeSpec, network: OwnNetwork) -> nn.Module:
    make: Any = network.make
    if isinstance(make, nn.Module):
        return copy.deepcopy(make).cpu()
    arguments = _arguments(spec, make)
    try:
        net = make(**arguments)
    except EdgestillError:
        raise
    except Exception as error:  # a user's own class may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ModelError(f"{spec}: building it failed ({reason})") from error
    if not isinstance(net, nn.Module):
        raise ModelError(f"{spec}: gave a {type(net).__name__}; return an nn.Module that gives logits")
    return net.cpu()


def _arguments(spec: PrototypeSpec, make: Any) -> dict[str, Any]:
    """The arguments of a class or function by name; ModelError for one that is required and unknown."""
    arguments = {}
    for name, parameter in inspect.signature(make).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if name in GIVEN:
            arguments[name] = GIVEN[name](spec)
        elif parameter.default is parameter.empty:
            raise ModelError(
                f"{spec}: takes an argument {name!r} without a default; known: {' '.join(GIVEN)}; give an instance, or "
                "a function without it"
            )
    return arguments
