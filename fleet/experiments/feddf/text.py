"""FedDF on text: AG News and SST-2 with the small bag-of-words prototype (FedDF, Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from edge_agent.training.params import LocalTraining
from fleet.experiments.base import Cell, Experiment, Measure, at_least, below
from fleet.experiments.feddf.against_average import rounds_to_average
from fleet.experiments.feddf.figure import compared, curves
from fleet.experiments.feddf.runs import best, follow, last, rounds_to
from fleet.simulation.config import SimulationConfig

__all__ = ["EXPERIMENT", "TASKS", "scene"]

PROTOTYPE = "text:fp32"


@dataclass(frozen=True, slots=True)
class Task:
    """A dataset and the number of samples used."""

    title: str
    train: int | None  # None: all
    lr: float
    epochs: int


TASKS = MappingProxyType(
    {
        "ag_news": Task("AG News", 9600, lr=1.0, epochs=5),
        "sst2": Task("SST-2", None, lr=0.2, epochs=1),
    }
)


def scene(task: str, recipe: str) -> SimulationConfig:
    """The configuration of a fleet for `task`."""
    distilled = {"steps": 500, "check_every": 50} if recipe == "feddf" else {}
    return SimulationConfig(
        score_devices="never",  # only the fused models are compared
        dataset=task,
        devices=10,
        prototypes=(PROTOTYPE,),
        training=LocalTraining(lr=TASKS[task].lr, batch_size=8, epochs=TASKS[task].epochs),
        alpha=1.0,
        options={"min_size": 32},
        rounds=10,
        recipe=recipe,
        fusion=distilled,
        validation_size=500,
    )


def _runs(_: str) -> Mapping[str, Measure]:
    return {
        f"{recipe} {name}": partial(follow, config=scene(name, recipe), train=task.train, unlabeled=0.5)
        for name, task in TASKS.items()
        for recipe in ("fedavg", "feddf")
    }


def _cells(_: str) -> Sequence[Cell]:
    cells = []
    for name, task in TASKS.items():
        average, distilled = f"fedavg {name}", f"feddf {name}"
        level, top = last(average, PROTOTYPE), best(average, PROTOTYPE)
        cells += [
            Cell(f"{task.title} FedAvg", level),
            Cell(f"{task.title} FedDF", last(distilled, PROTOTYPE), target=at_least(level)),
            Cell(
                f"{task.title}: rounds of FedDF to FedAvg's best",
                rounds_to(distilled, PROTOTYPE, top),
                target=below(rounds_to(average, PROTOTYPE, top)),
                unit="rounds",
            ),
            *rounds_to_average(task.title, average, distilled, PROTOTYPE),
        ]
    return cells


_ABOUT = """
FedDF (Lin et al. 2020, Figure 3) fine-tunes a pre-trained DistilBERT on AG News and SST-2: 10 devices, all in every
round, alpha 1, 10 rounds; the devices have one half of the training set, the aggregator has the other half without
labels. The paper shows curves without numbers. Here the fleet is the same, and the model is edgestill's small
bag-of-words prototype `text`, which starts from random embeddings: the accuracies do not apply to DistilBERT.

Accuracies are means of the last 3 rounds on the test set (AG News: all 7,600 texts; SST-2: the 872 of its dev part).
A student's checkpoint is selected by 500 labelled texts that no device has, in the same fleet for both recipes.
Rounds are counted to FedAvg's best single round, to which the target refers; 11 means that none of the 10 rounds
reached it. Single rounds are noisy, so rounds are also counted until the mean of three reaches FedAvg's accuracy.
Those rows have no target: they were added after the results were known.
"""

EXPERIMENT = Experiment(
    title="FedDF on AG News and SST-2",
    about=_ABOUT,
    runs=_runs,
    cells=_cells,
    draw=curves(
        "FedDF on text",
        {task.title: compared(f"fedavg {name}", f"feddf {name}", PROTOTYPE) for name, task in TASKS.items()},
    ),
    parameters={
        "training samples": "AG News 9,600, SST-2 67,349; half of them unlabeled",
        "local training": "SGD, batches of 8; AG News learning rate 1, 5 epochs; SST-2 learning rate 0.2, 1 epoch",
        "distillation": "Adam 1e-3 with cosine, 500 batches of 128",
    },
)
