"""`prototype`: an own network with more than its class says: its precision, the layer of its logits, a name."""

from __future__ import annotations

import re
from typing import Any

from core.errors import ConfigError
from models.own.network import OwnNetwork, OwnPrototype, own_network
from quant.precision import parse_precision

__all__ = ["prototype"]


def prototype(
    network: Any, precision: str = "fp32", *, predictor: str | None = None, name: str | None = None
) -> OwnPrototype:
    """A network of yours for `prototypes=[...]`, or for the command line as FILE.py:NAME.

    network    an nn.Module class, an instance, or a function that returns one; it returns logits (B, classes)
    precision  fp32, w8a8, w4a4, w2a2, w1 or w1a1
    predictor  name of the layer that makes the logits [the last nn.Linear]
    name       in results, if not that of the class
    """
    parse_precision(precision)
    name = name or str(getattr(network, "__name__", "") or type(network).__name__)
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ConfigError(f"prototype(): {name!r} is no name; give letters, digits and underscores")
    made = own_network(name, network)
    if predictor is not None:
        if not isinstance(made, OwnNetwork):
            raise ConfigError("prototype(): predictor is for networks that return logits, not for architectures")
        made = OwnNetwork(name=name, make=made.make, predictor=predictor)
    return OwnPrototype(name=name, network=made, precision=precision)
