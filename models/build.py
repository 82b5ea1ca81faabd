"""From a spec to a module with seeded initial weights."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from core.errors import ConfigError, EdgestillError, ModelError, did_you_mean
from models.own.build import build_own
from models.own.network import OwnNetwork
from models.registry import Architecture, architecture
from models.seeding import seeded
from models.spec import PrototypeSpec
from models.split import Extractor, Prototype
from quant.layers import Layers, layers_for

__all__ = ["build"]


def build(
    spec: PrototypeSpec, *, generator: torch.Generator | None = None, options: Mapping[str, Any] | None = None
) -> Prototype:
    """The prototype of `spec`; equal generators give equal weights, and the global random state is not changed.

    `options` are keyword arguments of the architecture, for example `{"size": 1.0}` for `shufflenetv2`.
    """
    make = architecture(spec.arch)
    if isinstance(make, OwnNetwork):
        return build_own(spec, make, generator=generator)
    layers = layers_for(spec.precision)
    options = options or {}
    _check_options(spec, make, options)
    with seeded(generator):
        body, width = _body(spec, make, layers, options)
        extractor = Extractor(body, width, layers, spec.latent)
        predictor = layers.linear(extractor.width, spec.classes)
    return Prototype(spec, extractor, predictor)


def _check_options(spec: PrototypeSpec, make: Architecture, options: Mapping[str, Any]) -> None:
    parameters = inspect.signature(make).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    known = list(parameters)[2:]  # after layers, input_shape
    for option in options:
        if option not in known:
            hint = did_you_mean(option, known) or f"; it has {' '.join(known) or 'none'}"
            raise ConfigError(f"{spec}: unknown option {option!r}{hint}")


def _body(spec: PrototypeSpec, make: Architecture, layers: Layers, options: Mapping[str, Any]) -> tuple[nn.Module, int]:
    try:
        body = make(layers, spec.input_shape, **options)
    except EdgestillError:
        raise
    except Exception as error:  # a user's own architecture may raise anything
        raise ModelError(f"{spec}: building it for input {spec.input_shape} failed ({error!r})") from error
    width = getattr(body, "width", None)
    if not isinstance(body, nn.Module) or not isinstance(width, int) or width < 1:
        raise ModelError(f"{spec}: the architecture must return an nn.Module with a positive integer `width`")
    return body, width
