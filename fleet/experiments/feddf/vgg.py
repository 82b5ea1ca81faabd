"""Drop-worst rescues FedDF with VGG-9, which has no BatchNorm, from devices at chance (FedDF, Table 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from edge_agent.training.params import LocalTraining
from fleet.experiments.base import Cell, Experiment, Measure, above
from fleet.experiments.feddf.figure import Line, curves
from fleet.experiments.feddf.runs import follow, last
from fleet.simulation.config import SimulationConfig

__all__ = ["EXPERIMENT", "scene"]

PROTOTYPE = "vgg9:fp32"
RECIPES = {"fedavg": "FedAvg", "feddf": "FedDF"}


def scene(recipe: str, *, drop_worst: bool) -> SimulationConfig:
    """A fleet's configuration, with or without the screen."""
    screen = {"screen": ["drop-worst"]} if drop_worst else {}
    distilled = {"steps": 40, "batch_size": 64, "check_every": 20} if recipe == "feddf" else {}
    return SimulationConfig(
        score_devices="never",  # only the fused models are compared
        dataset="mnist",
        devices=8,
        prototypes=(PROTOTYPE,),
        training=LocalTraining(lr=0.05, batch_size=16, epochs=5),
        alpha=0.1,
        options={"min_size": 16},
        rounds=5,
        fraction=0.5,
        recipe=recipe,
        fusion={**distilled, **screen},
        source="fashion_mnist",
        source_size=800,
        validation_size=200,
        latent=256,  # VGG-9's own width: no adapter
    )


def _runs(_: str) -> Mapping[str, Measure]:
    return {
        recipe + (" drop-worst" if drop else ""): partial(
            follow, config=scene(recipe, drop_worst=drop), train=1200, test=500
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
FedDF (Lin et al. 2020, Table 3): VGG-9 without normalization at alpha 0.1, where the models of some devices are no
better than chance. *Drop-worst* excludes models below 1.2 times chance on the aggregator's validation set or, if there
are none, those 1.5 standard deviations below the others.

The paper trains on CIFAR-10 with 20 devices, 40 local epochs and up to 100 rounds: more than an hour of one core for a
single round. This is a small fleet on MNIST with unlabeled Fashion-MNIST, which the same VGG-9 learns in minutes, so
only the ordering is compared. Accuracies are means of the last 3 rounds on 500 test images.
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
        "fleet": "8 devices, 4 in every round, 1,000 images by Dirichlet",
        "local training": "SGD, learning rate 0.05, batches of 16, 5 epochs",
        "distillation": "800 unlabeled images of Fashion-MNIST, Adam 1e-3 with cosine, 40 batches of 64",
        "rounds": 5,
    },
)
