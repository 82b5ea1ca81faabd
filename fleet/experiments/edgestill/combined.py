"""The edgestill recipe: three prototypes, one of them 1-bit, and ten attackers of thirty devices, on MNIST."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from edge_agent.training.params import LocalTraining
from fleet.experiments.base import (
    FLOAT_STUDENT,
    UNCAPPED,
    AllResults,
    Cell,
    Experiment,
    Fact,
    Facts,
    Measure,
    Setting,
    at_most,
    below,
)
from fleet.simulation.config import SimulationConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fleet.results.run_file import RoundResult

__all__ = ["ATTACK", "EXPERIMENT", "PROTOTYPES", "WAYS", "measure", "scene"]

PROTOTYPES = ("cnn:fp32", "mlp:fp32", "cnn:w1")
ATTACK = "faulty@0+1+2+3+4,malicious@5+6+7+8+9"  # device i has prototype i mod 3: each prototype has both
TRAIN, TEST, APART = 15_000, 4000, 2000  # images; APART of TRAIN are unlabeled at the aggregator
_TAUGHT: Mapping[str, Any] = {"steps": 30, "batch_size": 64, "check_every": 30}
#: By the name on the page: recipe and overrides.
WAYS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "edgestill": ("edgestill", _TAUGHT),
    "edgestill without samples": ("edgestill", {"teach": "none"}),
    "FedAvg": ("fedavg", {}),
    "FedDF": ("feddf", _TAUGHT),
}
OURS = ("edgestill", "edgestill without samples")
ROUNDS = 30
LAST, LOSS, COLLAPSE = (
    3,
    2.0,
    50.0,
)  # rounds averaged; maximum loss in points; percent of a collapsed model
CLEAN, ATTACKED = "without attackers", "with attackers"


def scene(way: str, attack: str) -> SimulationConfig:
    """The fleet's configuration; `measure` sets the aggregator's samples."""
    recipe, fusion = WAYS[way]
    return SimulationConfig(
        score_devices="never",  # only the fused models are compared
        dataset="mnist",
        devices=30,
        prototypes=PROTOTYPES,
        training=LocalTraining(lr=0.1, batch_size=32, steps=20, momentum=0.5),
        alpha=0.5,
        options={"min_size": 32},
        rounds=ROUNDS,
        recipe=recipe,
        fusion={**UNCAPPED, **FLOAT_STUDENT, **fusion},
        validation_size=0,
        attack=attack,
        score_ensemble=False,
    )


def measure(setting: Setting, *, config: SimulationConfig, sizes: tuple[int, int, int] = (TRAIN, TEST, APART)) -> Facts:
    """Accuracies by prototype and round, the attackers' weight, and bytes that a device sends in a round."""
    import numpy as np

    from fleet.data import load
    from fleet.experiments.feddf.runs import subset
    from fleet.simulation.simulation import Simulation

    train, test, apart = sizes
    dataset = subset(load(config.dataset), train, test, seed=setting.seed)  # in file order, not sorted by label
    setting.folder.mkdir(parents=True, exist_ok=True)
    np.savez(setting.folder / "unlabeled.npz", x=dataset.inputs(dataset.x_train[:apart]))
    left = replace(dataset, x_train=dataset.x_train[apart:], y_train=dataset.y_train[apart:])
    config = replace(config, seed=setting.seed, source=str(setting.folder / "unlabeled.npz"))
    simulation = Simulation(config, left)
    attackers = {d.id for group in simulation.groups for d in group.devices if d.attack is not None}
    facts: dict[str, Any] = {"accuracy": {name: [] for name in config.prototypes}, "harm": [], "honest_out": []}
    for round_number in range(1, config.rounds + 1):
        result = simulation.run_round(round_number)
        for name, one in result.prototypes.items():
            facts["accuracy"][name].append(round(100 * one.full_precision, 2))
        facts["harm"].append(round(sum(result.devices[d]["weight"] for d in attackers if d in result.devices), 4))
        facts["honest_out"].append(sum(not r["weight"] for d, r in result.devices.items() if d not in attackers))
        if round_number == 1:  # later, devices that diverge from a collapsed model send nothing
            facts["bytes_up"] = {name: one.bytes_up / one.devices for name, one in result.prototypes.items()}
        setting.say(
            f"round {round_number}/{config.rounds}, {_accuracies(result)}, attackers' weight {facts['harm'][-1]:.3f}"
        )
    return facts


def _accuracies(result: RoundResult) -> str:
    return ", ".join(f"{name} {100 * one.full_precision:.1f} %" for name, one in result.prototypes.items())


def _runs(_: str) -> dict[str, Measure]:
    runs: dict[str, Measure] = {f"{way} {ATTACKED}": partial(measure, config=scene(way, ATTACK)) for way in WAYS}
    return {**runs, **{f"{way} {CLEAN}": partial(measure, config=scene(way, "")) for way in OURS}}


def _accuracy(run: str, prototype: str) -> Fact:
    return Fact((run,), lambda results: fmean(results[run]["accuracy"][prototype][-LAST:]), run)


def _sent(run: str, prototype: str) -> Fact:
    return Fact((run,), lambda results: results[run]["bytes_up"][prototype] / 1000, f"{run} {prototype}")


def _lost(way: str, prototype: str) -> Fact:
    clean, attacked = (_accuracy(f"{way} {when}", prototype) for when in (CLEAN, ATTACKED))
    return Fact((*clean.runs, *attacked.runs), lambda r: clean.value(r) - attacked.value(r), f"lost by {way}")


def _cells(_: str) -> Sequence[Cell]:
    cells = []
    for prototype in PROTOTYPES:
        for way in OURS:
            cells += [Cell(f"{prototype} {way} {w}", _accuracy(f"{way} {w}", prototype)) for w in (CLEAN, ATTACKED)]
            lost = _lost(way, prototype)
            cells.append(Cell(f"{prototype} lost by {way}", lost, target=at_most(LOSS), unit="points"))
        for way in ("FedAvg", "FedDF"):
            fact = _accuracy(f"{way} {ATTACKED}", prototype)
            cells.append(Cell(f"{prototype} {way} {ATTACKED}", fact, target=below(COLLAPSE)))
    full = _sent(f"FedAvg {ATTACKED}", "cnn:fp32")
    cells.append(Cell("uplink of FedAvg cnn:fp32", full, unit="KB"))
    for prototype in PROTOTYPES:
        fact = _sent(f"edgestill {ATTACKED}", prototype)
        target = below(full) if prototype == "cnn:w1" else None
        cells.append(Cell(f"uplink of edgestill {prototype}", fact, target=target, unit="KB"))
    return cells


def _draw(results: AllResults) -> Figure:
    from fleet.experiments.feddf.figure import Line, curves

    runs = [*(f"{way} {when}" for way in OURS for when in (CLEAN, ATTACKED)), *(f"{w} {ATTACKED}" for w in WAYS)]
    panels = {p: [Line(run, run, p) for run in dict.fromkeys(runs)] for p in PROTOTYPES}
    return curves("Ten attackers of thirty devices, three prototypes", panels)(results)


ABOUT = f"""
One recipe for a setting that none of the papers covers: prototypes of different architecture and precision, attackers,
and a generator. Thirty devices with MNIST (Dirichlet, alpha 0.5), ten per prototype; five of them are faulty (they add
noise of standard deviation 20 to every parameter) and five malicious (they train with every label 0). *edgestill* has
{APART:,} images without labels at the aggregator, as FedDF has; *edgestill without samples* has none: trust comes from
the predictors, a generator guides the devices, and nothing is distilled. The same images are held out from all fleets.

Accuracies are those of the fused model, full precision, on {TEST:,} test images, mean of the last {LAST} rounds. What
is *lost* is the difference between the recipe without and with attackers: with attackers it has the samples of 20
devices, without those of 30. Uplink is the size of one device's update, packed, including its signed envelope.

Three or four of the ten devices of every prototype are attackers, both faulty and malicious ones. (If the seed selects
the attackers, a prototype may lack one kind: with seed 0 no device with an MLP was faulty, and FedAvg of the MLP stayed
at 56.6 %.) There are 30 rounds; after twelve rounds the MLP without samples was still learning, and had lost 11.0
points.

Devices with zero trust are excluded from the average and as teachers. (When they were excluded from the average only,
the CNN lost 2.14 points.) Without samples, the norm of an update is bounded to five times the median of its prototype
([why](../fusion.md#a-generator-instead-of-samples)): an honest device of seed 2 had diverged in round 8, which
destroyed the MLP of the fleet without attackers.

The threshold of single-label drift (`trust_lean`, [fusion](../fusion.md#a-generator-instead-of-samples)) was chosen in
one trial fleet of this kind, seed 0, with a lower learning rate and fewer samples; learning rate and rounds after six
rounds of *edgestill* with attackers.
"""

EXPERIMENT = Experiment(
    title="edgestill: three prototypes, ten attackers of thirty devices",
    about=ABOUT,
    runs=_runs,
    cells=_cells,
    seeds=(0, 1, 2),
    draw=_draw,
    parameters={
        "fleet": f"30 devices, all in every round, {TRAIN - APART:,} samples, {ROUNDS} rounds",
        "local training": "20 steps of SGD, batch 32, learning rate 0.1, momentum 0.5",
        "distillation": "Adam 1e-3 with cosine, 30 batches of 64, no labelled images",
    },
)
