"""Cost and effect of the cap on claimed examples: `benchmarks/bounded_influence.py [--json] [--quick] [PART ...]`.

sizes    spread of honest fleets: max / lower median of the devices' examples, 20 draws per partition
cost     accuracy of honest fleets (digits and MNIST, alpha 0.1, 30 devices) by `max_examples_ratio`, three seeds
attack   15 devices with digits, one of them with a backdoor: it claims 2^53 examples, without the cap and with it, and
         then its true number

The attacker trains like the others, so its update has an honest norm; half of its images carry a patch of 2 x 2 bright
pixels and the label 0. The backdoor succeeds on a patched test image of another class that the fused model labels 0.

`--quick`: digits alone, one draw, one recipe, one seed, one round.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any
from unittest.mock import patch

import torch
from _data import use_shared_data
from _quick import add_quick

sys.path.insert(0, str(Path(__file__).parents[1]))

from aggregator.evaluate import evaluate
from aggregator.fusion.example_cap import lower_median
from aggregator.recipes.catalogue import MAX_EXAMPLES_RATIO
from core.errors import ConfigError
from edge_agent.training.params import LocalTraining
from fleet.attacks.builtin import Attack
from fleet.data import Dataset, load
from fleet.experiments.feddf.runs import subset
from fleet.partition import partition
from fleet.simulation.config import SimulationConfig
from fleet.simulation.device import SimulatedDevice, make_devices
from fleet.simulation.hooks import Hooks
from fleet.simulation.simulation import Simulation
from quant.pack import load_packed, pack_state

SPLITS = [("dirichlet", a) for a in (0.01, 0.1, 0.5, 1.0)]
SPLITS += [
    ("iid", 1.0),
    ("iid-skew", 1.0),
    ("shards", 1.0),
    ("fedgen", 0.1),
    ("feddf", 0.1),
    ("fedrad", 0.5),
    ("fedrad-iid", 1.0),
]
TAUGHT = {"steps": 30, "batch_size": 64, "check_every": 30}
RECIPES: Mapping[str, Mapping[str, Any]] = {"fedavg": {}, "fedrad": TAUGHT, "edgestill": TAUGHT}
TARGET, ATTACKER, DEVICES = 0, 7, 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The size of the benchmark."""

    datasets: tuple[str, ...] = ("digits", "mnist")
    splits: tuple[tuple[str, float], ...] = tuple(SPLITS)
    fleets: tuple[int, ...] = (10, 30, 100)
    draws: int = 20
    seeds: tuple[int, ...] = (0, 1, 2)
    ratios: tuple[float, ...] = (0.0, 2.0, 3.0, 5.0)
    honest: tuple[str, ...] = ("fedavg", "edgestill")  # recipes of `cost`
    attacked: tuple[str, ...] = tuple(RECIPES)
    devices: int = 30
    rounds: int = 8
    attack_rounds: int = 10


QUICK = Scale(
    datasets=("digits",),
    splits=(("dirichlet", 1.0),),
    fleets=(10,),
    draws=1,
    seeds=(0,),
    ratios=(MAX_EXAMPLES_RATIO,),
    honest=("fedavg",),
    attacked=("fedavg",),
    devices=4,
    rounds=1,
    attack_rounds=1,
)


class Backdoored(SimulatedDevice):
    """Every second image has the patch and the label `TARGET`."""

    @property
    def x(self) -> torch.Tensor:
        """Its samples."""
        x = super().x
        x[::2] = patched(x[::2])
        return x

    @property
    def y(self) -> torch.Tensor:
        """The labels that it trains with."""
        y = super().y.clone()
        y[::2] = TARGET
        return y


def patched(x: torch.Tensor) -> torch.Tensor:
    """The trigger in the corner."""
    x = x.clone()
    x[..., :2, :2] = x.max()
    return x


def main() -> None:
    """Measure and print, with `--json` also as one object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    add_quick(parser)
    parser.add_argument("parts", nargs="*", default=["sizes", "cost", "attack"], metavar="PART")
    args = parser.parse_args()
    torch.set_num_threads(1)
    use_shared_data()
    scale = QUICK if args.quick else Scale()
    measures = {"sizes": _sizes, "cost": _cost, "attack": _attack}
    facts: dict[str, Any] = {}
    for part in args.parts:
        facts[part] = {}
        for name, value, words in measures[part](scale):
            facts[part][name] = value
            print(f"{name:34s} {words}", flush=True)
    if args.json:
        print(json.dumps(facts))


Measured = Iterator[tuple[str, Any, str]]


def _sizes(scale: Scale) -> Measured:
    for dataset in scale.datasets:
        labels = load(dataset).y_train
        for split, alpha in scale.splits:
            for devices in scale.fleets:
                drawn = _ratios(labels, split, alpha, devices, scale.draws)
                if drawn:
                    usual, worst = median(drawn), max(drawn)
                    name = f"{dataset} {split} {alpha:g}, {devices} devices"
                    yield name, [round(usual, 2), round(worst, 2)], f"median {usual:5.1f}, most {worst:5.1f}"


def _ratios(labels: Any, split: str, alpha: float, devices: int, draws: int) -> list[float]:
    """The ratios of several draws; empty if no draw satisfies the partition's minimum size."""
    found = []
    for seed in range(draws):
        try:
            parts = partition(split, labels, devices=devices, alpha=alpha, seed=seed)
        except ConfigError:
            return found
        sizes = [len(part) for part in parts if len(part)]
        found.append(max(sizes) / lower_median(sizes))
    return found


def _cost(scale: Scale) -> Measured:
    for dataset in scale.datasets:
        for recipe in scale.honest:
            for ratio in scale.ratios:
                runs = [_honest(dataset, recipe, ratio, seed, scale) for seed in scale.seeds]
                accuracies, capped = [100 * run[0] for run in runs], [run[1] for run in runs]
                name = f"{dataset} {recipe} ratio {ratio:g}"
                words = f"{fmean(accuracies):5.2f} ± {_spread(accuracies):.2f} %"
                yield (
                    name,
                    [round(a, 2) for a in accuracies],
                    f"{words}, {fmean(capped):.1f} of {scale.devices} devices capped",
                )


def _spread(values: list[float]) -> float:
    """Standard deviation over seeds; 0 of one."""
    return stdev(values) if len(values) > 1 else 0.0


def _honest(dataset: str, recipe: str, ratio: float, seed: int, scale: Scale) -> tuple[float, float]:
    """Mean accuracy of the last three rounds, and the number of devices capped per round."""
    data = subset(load(dataset), 3000, 1000, seed=seed)
    config = _config(dataset, recipe, ratio, seed, devices=scale.devices, alpha=0.1, rounds=scale.rounds)
    with Simulation(config, data) as simulation:
        results = [simulation.run_round(number) for number in range(1, config.rounds + 1)]
    capped = [sum(report["capped"] is not None for report in result.devices.values()) for result in results]
    return fmean(next(iter(r.prototypes.values())).accuracy for r in results[-3:]), fmean(capped)


def _attack(scale: Scale) -> Measured:
    cases = {"no cap": (0.0, 2.0**53), "the cap": (MAX_EXAMPLES_RATIO, 2.0**53), "no lie": (MAX_EXAMPLES_RATIO, 1.0)}
    for recipe in scale.attacked:
        for case, (ratio, claim) in cases.items():
            runs = [backdoor(recipe, ratio, seed, claim=claim, rounds=scale.attack_rounds) for seed in scale.seeds]
            clean, success, share = ([100 * run[n] for run in runs] for n in range(3))
            words = f"accuracy {fmean(clean):5.1f} ± {_spread(clean):.1f} %, backdoor {fmean(success):5.1f} ± "
            words += f"{_spread(success):.1f} %, attacker's weight {max(share):.1f} % at most"
            yield f"{recipe}, {case}", runs, words


def backdoor(recipe: str, ratio: float, seed: int, *, claim: float, rounds: int) -> tuple[float, float, float]:
    """Accuracy and success rate of the backdoor after the last round, and the attacker's maximum weight."""
    config = _config("digits", recipe, ratio, seed, devices=DEVICES, partition="iid", rounds=rounds)

    def with_attacker(config: SimulationConfig, dataset: Dataset, hooks: Hooks) -> list[SimulatedDevice]:
        devices = make_devices(config, dataset, hooks)
        honest = {f.name: getattr(devices[ATTACKER], f.name) for f in fields(SimulatedDevice)}
        devices[ATTACKER] = Backdoored(**{**honest, "attack": Attack("inflate", claim)})
        return devices

    with (
        patch("fleet.simulation.simulation.make_devices", with_attacker),
        Simulation(config, load("digits")) as simulation,
    ):
        results = [simulation.run_round(number) for number in range(1, rounds + 1)]
        group = simulation.groups[0]
        load_packed(group.model, pack_state(group.state, floats="fp32"))
        others = simulation.test_y != TARGET
        x = patched(simulation.test_x[others])
        success = evaluate(group.model, x, torch.full((len(x),), TARGET)).accuracy
        who = simulation.devices[ATTACKER].id
    weights = [result.devices[who]["weight"] for result in results]
    return results[-1].prototypes[group.name].accuracy, success, max(weights)


def _config(dataset: str, recipe: str, ratio: float, seed: int, **changes: Any) -> SimulationConfig:
    return SimulationConfig(
        score_devices="never",  # only the fused models are compared
        dataset=dataset,
        prototypes=("cnn:fp32",),
        training=LocalTraining(lr=0.05, batch_size=16, epochs=2, momentum=0.9 if dataset == "digits" else 0.5),
        recipe=recipe,
        fusion={**RECIPES[recipe], "max_examples_ratio": ratio},
        validation_size=0,
        score_ensemble=False,
        seed=seed,
        **changes,
    )


if __name__ == "__main__":
    main()
