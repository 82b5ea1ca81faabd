"""What a user gives for an own network. Imports no torch.

MyNet                         a class; arguments called classes (or num_classes) and input_shape are given
MyNet()                       an instance; every device starts from its weights
make_net                      a function that returns an instance, with the same arguments
own(layers, input_shape)      a function whose first argument is `layers`: an architecture as in models/registry.py
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from core.errors import ConfigError

__all__ = ["OwnNetwork", "OwnPrototype", "is_architecture", "own_network"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnNetwork:
    """A network that returns logits."""

    name: str  # in prototypes and errors
    make: Any  # a class, a function or an instance
    predictor: str | None = None  # the layer that makes the logits, by its name in the network; None: it is looked for
    cuts: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)  # cached by models/own/split.py


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPrototype:
    """A network with its precision, as `es.prototype` returns it."""

    name: str
    network: OwnNetwork | Callable[..., Any]
    precision: str = "fp32"

    def __str__(self) -> str:
        return f"{self.name}:{self.precision}"


def is_architecture(thing: Any) -> bool:
    """Whether this is a function of `layers`, which returns an extractor for any precision."""
    if inspect.isclass(thing) or not inspect.isroutine(thing):
        return False
    return next(iter(inspect.signature(thing).parameters), None) == "layers"


def own_network(name: str, thing: Any) -> OwnNetwork | Callable[..., Any]:
    """A user's class, instance or function as the registry holds it; ConfigError if it is no network."""
    if isinstance(thing, OwnPrototype):
        return thing.network
    if is_architecture(thing):
        return thing  # type: ignore[no-any-return]
    if not (callable(thing) and _may_be_a_network(thing)):
        what = f"a {type(thing).__name__}"
        raise ConfigError(f"prototype {name}: is {what}; give an nn.Module class, an instance, or a function of them")
    return OwnNetwork(name=name, make=thing)


def _may_be_a_network(thing: Any) -> bool:
    """Whether it is an nn.Module, or something that could return one; torch is not imported to find out."""
    if inspect.isclass(thing):
        return any(base.__module__.startswith("torch.nn") for base in thing.__mro__)
    if inspect.isroutine(thing) or hasattr(thing, "func"):  # a function, or functools.partial of one
        return True
    return any(base.__module__.startswith("torch.nn") for base in type(thing).__mro__)
