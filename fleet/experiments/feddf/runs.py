"""Shared by FedDF's experiments: runs a simulated fleet and records accuracies by round.

A run's facts hold one list per prototype, in percent of the test set, one value per round:

    accuracy   of the fused model with full-precision weights, as in FedDF
    average    of the mean that the student started from, at the prototype's own precision
    ensemble   of the ensemble of all teachers        screened   excluded updates of all prototypes

Labelled samples that influence fusion are held out from the devices of every recipe, including FedAvg, so that all
recipes have the same devices with the same samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from fleet.experiments.base import FLOAT_STUDENT, UNCAPPED, Fact, Facts, Results, Setting
from fleet.simulation.config import SimulationConfig

if TYPE_CHECKING:
    from fleet.data import Dataset
    from fleet.data.dataset import Array
    from fleet.results.run_file import PrototypeResult

__all__ = [
    "LAST",
    "best",
    "first_to",
    "follow",
    "gap",
    "halved",
    "last",
    "rounds_to",
    "subset",
    "trailing",
    "with_source",
]

Curve = tuple[str, str]  # a run, and the key of one of its lists
LAST = 3  # a run's accuracy is the mean of its last rounds: single rounds are noisy


def follow(
    setting: Setting,
    config: SimulationConfig,
    *,
    train: int | None = None,
    test: int | None = None,
    unlabeled: float = 0.0,
    halve: bool = False,
) -> Facts:
    """Run the fleet of `config` with the seed of `setting` on `train` samples, scored on `test` samples.

    A share `unlabeled` of the training samples goes to the aggregator without labels instead of to devices. `halve`
    downsamples all images to half their width and height, including those of the source.
    """
    from fleet.data import load
    from fleet.simulation.simulation import Simulation

    config = replace(config, seed=setting.seed, fusion={**UNCAPPED, **FLOAT_STUDENT, **config.fusion})
    dataset = subset(load(config.dataset), train, test, seed=setting.seed)
    if halve:
        dataset, config = _halve(dataset, config, setting)
    if unlabeled:
        dataset, config = _set_apart(dataset, config, unlabeled, setting)
    simulation = Simulation(config, dataset)
    facts: dict[str, dict[str, list[float]]] = {"accuracy": {}, "average": {}, "ensemble": {}}
    screened = []
    for round_number in range(1, config.rounds + 1):
        result = simulation.run_round(round_number)
        for name, p in result.prototypes.items():
            for key, value in (
                ("accuracy", p.full_precision),
                ("average", p.average_accuracy),
                ("ensemble", p.ensemble_accuracy),
            ):
                if value is not None:
                    facts[key].setdefault(name, []).append(round(100 * value, 2))
        screened.append(sum(report["screened"] is not None for report in result.devices.values()))
        now = ", ".join(f"{name} {_accuracies(p)}" for name, p in result.prototypes.items())
        setting.say(f"round {round_number}/{config.rounds}, {now}")
    return {**facts, "screened": screened}


def _accuracies(p: PrototypeResult) -> str:
    """Accuracy of the fused model; in brackets, if distilled, of the average before and of the ensemble."""
    text = f"{100 * p.full_precision:.1f} %"
    if p.average_accuracy is None or p.ensemble_accuracy is None:
        return text
    return f"{text} ({100 * p.average_accuracy:.1f}, {100 * p.ensemble_accuracy:.1f})"


def subset(dataset: Dataset, train: int | None, test: int | None, *, seed: int) -> Dataset:
    """`train` and `test` samples of `dataset`, drawn by `seed`; None: all."""
    from fleet.simulation.seeds import numpy_rng

    def drawn(count: int, wanted: int | None, part: str) -> list[int]:
        order: list[int] = numpy_rng(seed, "subset", part).permutation(count)[:wanted].tolist()
        return sorted(order)

    rows, tested = drawn(len(dataset.y_train), train, "train"), drawn(len(dataset.y_test), test, "test")
    return replace(
        dataset,
        x_train=dataset.x_train[rows],
        y_train=dataset.y_train[rows],
        x_test=dataset.x_test[tested],
        y_test=dataset.y_test[tested],
    )


def _set_apart(
    dataset: Dataset, config: SimulationConfig, share: float, setting: Setting
) -> tuple[Dataset, SimulationConfig]:
    """The dataset of the devices, and a configuration whose source is the rest without labels."""
    import numpy as np

    from fleet.simulation.seeds import numpy_rng

    order = numpy_rng(setting.seed, "unlabeled").permutation(len(dataset.y_train))
    apart, rest = np.split(order, [round(share * len(order))])
    left = replace(dataset, x_train=dataset.x_train[rest], y_train=dataset.y_train[rest])
    return left, with_source(config, dataset.inputs(dataset.x_train[apart]), setting)


def _halve(dataset: Dataset, config: SimulationConfig, setting: Setting) -> tuple[Dataset, SimulationConfig]:
    """Dataset and configuration with images of half the size, for the task and for a dataset that is its source."""
    from fleet.data import DATASETS, load

    small = replace(dataset, x_train=halved(dataset.x_train), x_test=halved(dataset.x_test))
    if config.source not in DATASETS:
        return small, config
    return small, with_source(config, small.inputs(halved(load(config.source).x_train)), setting)


def halved(x: Array) -> Array:
    """Downsample images (N, C, H, W) by the rounded means of two by two pixels."""
    n, c, h, w = x.shape
    small: Array = x.reshape(n, c, h // 2, 2, w // 2, 2).mean((3, 5)).round().astype(x.dtype)
    return small


def with_source(config: SimulationConfig, x: Array, setting: Setting) -> SimulationConfig:
    """The configuration with `x` as the aggregator's unlabeled samples."""
    import numpy as np

    setting.folder.mkdir(parents=True, exist_ok=True)
    path = setting.folder / "unlabeled.npz"
    np.savez(path, x=x)
    return replace(config, source=str(path))


def _curve(results: Results, run: str, prototype: str, key: str = "accuracy") -> list[float]:
    curve: list[float] = results[run][key][prototype]
    return curve


def last(run: str, prototype: str, key: str = "accuracy") -> Fact:
    """Mean over the last three rounds."""
    return Fact((run,), lambda results: fmean(_curve(results, run, prototype, key)[-LAST:]), run)


def best(run: str, prototype: str) -> Fact:
    """The best round."""
    return Fact((run,), lambda results: max(_curve(results, run, prototype)), f"best of {run}")


def gap(a: Curve, b: Curve, prototype: str, *, rounds: int, pick: Callable[[Sequence[float]], float]) -> Fact:
    """a - b in each of the last `rounds` rounds, reduced by `pick`, such as min for the worst."""

    def value(results: Results) -> float:
        of_a, of_b = (_curve(results, run, prototype, key)[-rounds:] for run, key in (a, b))
        return pick([x - y for x, y in zip(of_a, of_b, strict=True)])

    return Fact(tuple(dict.fromkeys((a[0], b[0]))), value, f"{a[0]} - {b[0]}")


def first_to(curve: list[float], level: float) -> int:
    """The first round, counted from 1, that reaches `level`; one more than the number of rounds if none does.

    >>> first_to([50.0, 70.0, 60.0], 65.0), first_to([50.0], 65.0)
    (2, 2)
    """
    return next((n for n, value in enumerate(curve, 1) if value >= level), len(curve) + 1)


def trailing(curve: list[float], over: int) -> list[float]:
    """Trailing means over up to `over` rounds.

    >>> trailing([10.0, 20.0, 60.0, 40.0], 3)
    [10.0, 15.0, 30.0, 40.0]
    """
    return [fmean(curve[max(n - over, 0) : n]) for n in range(1, len(curve) + 1)]


def rounds_to(run: str, prototype: str, level: Fact, *, times: float = 1.0, over: int = 1) -> Fact:
    """Rounds until the mean of the last `over` rounds of `run` reaches `level`, multiplied by `times`."""

    def value(results: Results) -> float:
        return times * first_to(trailing(_curve(results, run, prototype), over), level.value(results))

    share = "" if times == 1 else f"{times:g} x "
    return Fact(tuple(dict.fromkeys((run, *level.runs))), value, f"{share}rounds of {run}")
