"""What a program passes in place of names: networks, data, functions, recipes. Each is lent to this process by name.

    settings = with_names({"prototypes": [MyNet, (MyNet, "w1"), "cnn:w1"], "recipe": mine, "attack": {drift: 3}})
    # {"prototypes": ["MyNet:fp32", "MyNet:w1", "cnn:w1"], "recipe": "mine", "attack": "drift:3"}

Workers are forked afterwards and inherit the objects, so nothing is pickled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from aggregator.recipes.catalogue import RECIPES, Recipe
from aggregator.recipes.parts import PARTS as BUILT_IN
from core import own_code
from core.errors import ConfigError
from core.settings import replace
from fleet.attacks.builtin import ATTACKS
from fleet.attacks.plugins import kind_of_function
from fleet.data.given import data_name, is_partitioner, partition_of
from fleet.partition import PARTITIONS
from fleet.simulation.own_code.local import arguments_of_loss
from fleet.simulation.own_code.named import PARTS
from models.own.network import OwnPrototype, own_network
from models.zoo import ZOO

__all__ = ["lend_as", "with_names"]

#: The names that are taken, by kind.
TAKEN: Mapping[str, Any] = {"model": ZOO, "partition": PARTITIONS, "recipe": RECIPES, "attack": ATTACKS}


def with_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with a name in the place of each object."""
    named = _Named()
    settings = dict(given)
    for key, convert in (
        ("prototypes", named.prototypes),
        ("recipe", named.recipe),
        ("fusion", named.fusion),
        ("attack", named.attacks),
        ("objective", named.one_of("objective")),
        ("train", named.one_of("train")),
    ):
        if settings.get(key) is not None:
            settings[key] = convert(settings[key])
    return named.data(settings)


def lend_as(kind: str, name: str, thing: Any) -> None:
    """Lend an object as what it is to be, checked: what a file calls NAME, or what a program has passed."""
    if kind == "model":
        if name in ZOO:
            raise ConfigError(f"prototype {name!r} is the name of a built-in one; rename yours")
        thing = own_network(name, thing)
    elif kind == "recipe":
        thing = _recipe(own_code.plain_name(name), thing)
    elif kind in ("part", "partition", "train", "attack", "objective") and not callable(thing):
        raise ConfigError(f"{kind} {name} is a {type(thing).__name__}, expected a function")
    if kind == "attack":
        kind_of_function(name, thing)
    if kind == "objective":
        arguments_of_loss(name, thing)
    own_code.lend(kind, name, thing)


def _recipe(name: str, thing: Any) -> Recipe:
    """A recipe by this name; a function is one that averages by it, and functions in place of parts are lent."""
    if not isinstance(thing, Recipe):
        if not callable(thing):
            raise ConfigError(f"recipe {name} is a {type(thing).__name__}, expected a Recipe or a function")
        title = (thing.__doc__ or "a user's own average").strip().splitlines()[0]
        thing = Recipe(name=name, title=title, paper="", average=thing)
    named = _Named()
    own = {kind: named.parts(kind, getattr(thing, kind)) for kind in PARTS}
    changes = {kind: tuple(names) if kind == "screen" else names for kind, names in own.items()}
    recipe: Recipe = replace(thing, name=name, **changes)
    return recipe


class _Named:
    """Lends objects; two different ones of one call may not share a name."""

    def __init__(self) -> None:
        self._here: dict[tuple[str, str], Any] = {}

    def lend(self, kind: str, thing: Any, *, name: str = "", prefix: str = "") -> str:
        """The name of `thing`, by which it is lent from now on."""
        name = name or str(getattr(thing, "__name__", "") or type(thing).__name__)
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ConfigError(f"{kind} {name!r} has no name; define it with def or class")
        if name in (BUILT_IN[prefix] if kind == "part" else TAKEN.get(kind, ())):
            raise ConfigError(f"{kind} {name!r} is the name of a built-in one; rename yours")
        whole = f"{prefix}.{name}" if prefix else name
        if self._here.setdefault((kind, whole), thing) is not thing:
            raise ConfigError(f"{kind} {name!r}: two different ones have this name; rename one")
        lend_as(kind, whole, thing)
        return name

    def prototypes(self, given: Any) -> Any:
        """Names, or a list of them, of networks, and of (network, precision)."""
        if isinstance(given, str):
            return given
        several = given if isinstance(given, list | tuple) and not _is_pair(given) else [given]
        return [one if isinstance(one, str) else self._prototype(one) for one in several]

    def _prototype(self, one: Any) -> str:
        thing, precision = one if _is_pair(one) else (one, None)
        if isinstance(thing, OwnPrototype):
            self._here.setdefault(("model", thing.name), thing.network)
            if self._here["model", thing.name] is not thing.network:
                raise ConfigError(f"prototype {thing.name!r}: two different networks have this name; rename one")
            lend_as("model", thing.name, thing)
            return f"{thing.name}:{precision or thing.precision}"
        return f"{self.lend('model', thing)}:{precision or 'fp32'}"

    def recipe(self, given: Any) -> Any:
        """A name, a `Recipe`, or a function that averages."""
        if isinstance(given, str):
            return given
        return (
            self.lend("recipe", given, name=_identifier(given.name))
            if isinstance(given, Recipe)
            else self.lend("recipe", given)
        )

    def fusion(self, given: Any) -> Any:
        """Overrides of the recipe, with functions for parts."""
        if not isinstance(given, Mapping):
            return given
        return {key: self.parts(key, value) if key in PARTS else value for key, value in given.items()}

    def parts(self, kind: str, given: Any) -> Any:
        """A part, or a list of them, with names for functions."""
        if isinstance(given, list | tuple):
            return [self.parts(kind, one) for one in given]
        return self.lend("part", given, prefix=kind) if callable(given) else given

    def attacks(self, given: Any) -> Any:
        """A text; or devices by attack: a count, or a list of their indices."""
        if not isinstance(given, Mapping):
            return given
        return ",".join(self._attack(attack, devices) for attack, devices in given.items())

    def _attack(self, attack: Any, devices: Any) -> str:
        name = attack if isinstance(attack, str) else self.lend("attack", attack)
        if isinstance(devices, list | tuple | range):
            return f"{name}@{'+'.join(map(str, devices))}"
        return f"{name}:{devices}"

    def one_of(self, kind: str) -> Callable[[Any], Any]:
        """A function of this kind by its name."""
        return lambda given: given if isinstance(given, str) else self.lend(kind, given)

    def data(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Dataset and partition; a partitioner is both, if no other partition is given."""
        dataset, split = settings.get("dataset"), settings.get("partition")
        if dataset is not None and not _is_name(dataset):
            if is_partitioner(dataset) and split is None:
                split = dataset
                settings.setdefault("devices", str(dataset.num_partitions))
            settings["dataset"], made = data_name(dataset)
            own_code.lend("dataset", settings["dataset"], made)
        if split is not None and not isinstance(split, str):
            function = partition_of(split) if is_partitioner(split) else split
            settings["partition"] = self.lend("partition", function)
        return settings


def _is_pair(given: Any) -> bool:
    """Whether it is (network, precision)."""
    return isinstance(given, tuple) and len(given) == 2 and not isinstance(given[0], str) and isinstance(given[1], str)


def _is_name(given: Any) -> bool:
    return isinstance(given, str) or hasattr(given, "__fspath__")


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)
