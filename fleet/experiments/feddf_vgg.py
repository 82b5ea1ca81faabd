"""Drop-worst rescues FedDF with VGG-9, which has no BatchNorm, from devices at chance (FedDF, Table 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from edge_agent.hyper import LocalTraining
from fleet.config import SimulationConfig
from fleet.experiments.base import Cell, Experiment, Measure, above
from fleet.experiments.feddf_figure import Line, curves
from fleet.experiments.feddf_runs import follow, last

__all__ = ["EXPERIMENT", "scene"]

PROTOTYPE = "vgg9:fp32"
RECIPES = {"fedavg": "FedAvg", "feddf": "FedDF"}


def scene(recipe: str, *, drop_worst: bool) -> SimulationConfig:
    """A fleet, with or without the screen."""
    screen = {"screen": ["drop-worst"]} if drop_worst else {}
    distilled = {"steps": 60, "batch_size": 64, "check_every": 20} if recipe == "feddf" else {}
    return SimulationConfig(
        dataset="cifar10",
        devices=8,
        prototypes=(PROTOTYPE,),
        training=LocalTraining(lr=0.05, batch_size=32, epochs=5),
        alpha=0.1,
        options={"min_size": 32},
        rounds=5,
        fraction=0.5,
        recipe=recipe,
        fusion={**distilled, **screen},
        source="cifar100",
        source_size=1000,
        validation_size=200,
        latent=256,  # VGG-9's own width: no adapter
    )


def _runs(_: str) -> Mapping[str, Measure]:
    return {
        recipe + (" drop-worst" if drop else ""): partial(
            follow, config=scene(recipe, drop_worst=drop), train=1800, test=600
        )
        for recipe in RECIPES
        for drop in (False, True)
    }


def _cells(_: str) -> Sequence[Cell]:
    cells = []
    for recipe, title in RECIPES.items():
        plain, rescued = last(recipe, PROTOTYPE), last(f"{recipe} drop-worst", PROTOTYPE)
        cells += [Cell(title, plain), Cell(f"{title} with drop-worst", rescued, target=above(plain))]
    return cells


_ABOUT = """
FedDF (Lin et al. 2020, Table 3): VGG-9 without normalization at alpha 0.1, where some devices come back with models
that are no better than chance. *Drop-worst* leaves out those below 1.2 times chance on the aggregator's validation set
or, if there are none, those 1.5 standard deviations below the others.

The paper has 20 devices, 40 local epochs and up to 100 rounds; this is a small fleet of the same kind, so that only the
ordering is compared. Accuracies are means of the last 3 rounds on 600 test images.
"""

EXPERIMENT = Experiment(
    title="Drop-worst with VGG-9 at alpha 0.1",
    about=_ABOUT,
    runs=_runs,
    cells=_cells,
    draw=curves(
        "Drop-worst with VGG-9 at alpha 0.1",
        {
            title: [
                Line(title, recipe, PROTOTYPE),
                Line(f"{title} with drop-worst", f"{recipe} drop-worst", PROTOTYPE),
            ]
            for recipe, title in RECIPES.items()
        },
    ),
    parameters={
        "fleet": "8 devices, 4 in every round, 1,600 images by Dirichlet",
        "local training": "SGD, learning rate 0.05, batches of 32, 5 epochs",
        "distillation": "1,000 unlabeled images of CIFAR-100, Adam 1e-3 with cosine, 60 batches of 64",
        "rounds": 5,
    },
)
