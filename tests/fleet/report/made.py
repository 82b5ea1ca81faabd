"""Small runs with numbers to follow by hand, as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from fleet.report.facts import RunFacts, read_facts
from fleet.results.run_file import PrototypeResult, RoundResult, Run, write_run

CNN, BIT = "cnn:fp32", "cnn:w1"


def result(accuracy: float, **change: Any) -> PrototypeResult:
    """Two devices, 1 MB up and 3 MB down."""
    facts = {"loss": 1.0, "train_loss": 0.5, "devices": 2, "bytes_up": 1_000_000, "bytes_down": 3_000_000}
    return PrototypeResult(accuracy=accuracy, **{**facts, **change})


def a_run(
    accuracies: Sequence[float] = (0.5, 0.7, 0.9), *, scored: bool = True, attacker: bool = True, **config: Any
) -> Run:
    """Three rounds of four devices of two prototypes; sim-3 does harm, has a low score and is left out."""
    rounds = [
        RoundResult(
            round=number,
            prototypes={
                CNN: result(accuracy, ensemble_accuracy=0.95 if scored else None),
                BIT: result(accuracy - 0.25, accuracy_float=accuracy - 0.125, bytes_up=10_000),
            },
            seconds=10.0,
            devices={
                f"sim-{n}": {
                    "weight": 0.5 if n < 3 else 0.0,
                    "score": (0.25 if n < 3 else 0.015625 * number) if scored else None,
                    "screened": None if n < 3 else "is hardly ever the median",
                }
                for n in range(4)
            },
            seconds_by={"train": 4.0, "encode": 1.0, "weigh": 0.25, "average": 0.25, "distill": 2.0},
        )
        for number, accuracy in enumerate(accuracies, 1)
    ]
    fleet = [
        {"device": f"sim-{n}", "prototype": (CNN, BIT)[n % 2], "examples": 10 + n, "labels": [5, 5 + n]}
        for n in range(4)
    ]
    if attacker:
        fleet[3]["attack"] = "faulty"
    settings = {"dataset": "digits", "recipe": "fedrad", "rounds": 3, "seed": 0, "training": {"lr": 0.1}, **config}
    return Run(config=settings, fleet=fleet, rounds=rounds)


def written(folder: Path, run: Run | None = None) -> Path:
    """The run's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_run(a_run() if run is None else run, folder)
    return folder


def facts(folder: Path, run: Run | None = None) -> RunFacts:
    """The run as a report reads it."""
    return read_facts(written(folder, run), folder.name)


def lines(figure: Figure, panel: int = 0) -> dict[str, list[float]]:
    """Labelled lines of a panel with their values."""
    return {str(line.get_label()): list(line.get_ydata()) for line in figure.axes[panel].lines}


def texts(figure: Figure) -> list[str]:
    """What is written beside marks."""
    return [text.get_text() for axes in figure.axes for text in axes.texts]
