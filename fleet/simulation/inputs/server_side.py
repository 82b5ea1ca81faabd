"""Builds the server-side inputs of fusion in a simulation, and the remaining dataset for the devices.

Labelled samples that influence fusion (early stopping of distillation, screens) are held out of the training set:
selecting by the test set would bias every score on it. `--source` selects the unlabeled samples.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from aggregator.fusion.types import Server
from aggregator.recipes.catalogue import Recipe
from core.errors import ConfigError
from fleet.data import Dataset
from fleet.simulation.config import SimulationConfig
from fleet.simulation.inputs.unlabeled import take_source
from fleet.simulation.seeds import numpy_rng
from fleet.simulation.settings.layers import about
from models.compute_device import find_device, repeatable_on

__all__ = ["VALIDATION", "server_side"]

VALIDATION = 0.1  # of the training set, as in FedDF
LOOKED_AT = 2000  # at most: more samples slow down every evaluation of every student without separating students better
Labelled = tuple[torch.Tensor, torch.Tensor]


def server_side(config: SimulationConfig, recipe: Recipe, dataset: Dataset, test: Labelled) -> tuple[Server, Dataset]:
    """The server-side inputs of fusion, and the dataset without the held-out samples."""
    teaches = recipe.needs_source or (recipe.uses_source and config.source != "none")
    looks = recipe.looks and (teaches or not recipe.source_optional)
    validation, left = _withhold(config, looks, dataset)
    source = None
    if teaches:
        with about("source"):
            source, left = take_source(
                config.source,
                left,
                size=config.source_size,
                classes=config.source_classes,
                fraction=config.source_fraction,
                seed=config.seed,
            )
        if source is None and recipe.needs_source:
            with about("source", "recipe"):
                raise ConfigError(f"recipe {recipe.name} needs unlabeled samples; give --source, such as auto")
    with about("compute"):
        compute = find_device(config.compute)
        repeatable_on(compute)
    server = Server(
        seed=config.seed,
        source=source,
        validation=validation,
        test=test,
        score_ensemble=config.score_ensemble,
        device=compute,
        amp=config.training.amp,
        processes=config.processes,
    )
    return server, left


def _withhold(config: SimulationConfig, looks: bool, dataset: Dataset) -> tuple[Labelled | None, Dataset]:
    total, size = len(dataset.y_train), config.validation_size
    if size is None:
        size = min(round(VALIDATION * total), LOOKED_AT) if looks else 0
    if size >= total:
        with about("validation_size"):
            raise ConfigError(f"--validation-size {size}: the training set has {total} samples; give fewer")
    if not size:
        return None, dataset
    order = numpy_rng(config.seed, "validation").permutation(total)
    rows, rest = sorted(order[:size]), sorted(order[size:])
    held = torch.from_numpy(dataset.inputs(dataset.x_train[rows])), torch.from_numpy(dataset.y_train[rows])
    return held, replace(dataset, x_train=dataset.x_train[rest], y_train=dataset.y_train[rest])
