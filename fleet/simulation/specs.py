"""The specification of a prototype in a simulation: from its name, the configuration and the dataset."""

from __future__ import annotations

from aggregator.recipes.catalogue import find_recipe
from fleet.data import Dataset
from fleet.simulation.config import SimulationConfig
from models.own.network import OwnNetwork
from models.registry import architecture
from models.spec import PrototypeSpec, parse_prototype

__all__ = ["spec_of"]


def spec_of(prototype: str, config: SimulationConfig, dataset: Dataset) -> PrototypeSpec:
    """The same in every process of the simulation.

    A user's own network stays as it is, unless the recipe has a generator: then it gets an adapter to its latent.
    """
    arch, precision = parse_prototype(prototype)
    own = isinstance(architecture(arch), OwnNetwork)
    shares = not own or find_recipe(config.recipe, config.fusion).generation is not None
    return PrototypeSpec(arch, precision, dataset.input_shape, dataset.classes, config.latent if shares else None)
