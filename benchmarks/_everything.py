"""The cost of a round with all features of edgestill, compared with FedAvg on the same fleet."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

__all__ = ["FULL", "QUICK", "Scale", "everything"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The size of the fleet and the number of rounds."""

    dataset: str
    devices: int
    invited: tuple[
        int, ...
    ]  # devices per round; the cost of distillation is constant, so its share is larger with fewer devices
    rounds: int  # the first is not counted: it exports graphs and warms up kernels
    source: int  # unlabeled samples
    steps: int  # of distillation


FULL = Scale(dataset="mnist", devices=90, invited=(30, 90), rounds=4, source=2000, steps=100)
QUICK = Scale(dataset="digits", devices=3, invited=(3,), rounds=2, source=64, steps=2)


def everything(repeats: int, scale: Scale) -> dict[str, Any]:
    """Seconds per round of both, best of `repeats`, their ratio, and seconds by stage; by devices per round."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import torch

    from edge_agent.training.params import LocalTraining
    from fleet.data import load
    from fleet.simulation.config import SimulationConfig

    torch.set_num_threads(1)
    dataset = load(scale.dataset)
    facts: dict[str, Any] = {"everything_ratio": {}, "everything_s": {}, "everything_split": {}}
    for invited in scale.invited:
        plain = SimulationConfig(
            score_devices="never",  # only the fused models are compared
            dataset=scale.dataset,
            devices=scale.devices,
            prototypes=("mlp:fp32", "cnn:fp32", "cnn:w1"),
            training=LocalTraining(lr=0.05, batch_size=32, epochs=1),
            partition="iid",
            rounds=scale.rounds,
            fraction=invited / scale.devices,
            source_size=scale.source,
            validation_size=0,
            score_every=scale.rounds,
            engine="processes",
        )
        taught = replace(plain, recipe="feddf", fusion={"steps": scale.steps})
        runs: dict[str, list[tuple[float, dict[str, float]]]] = {"fedavg": [], "feddf": []}
        for _ in range(repeats):
            for config in (plain, taught):
                runs[config.recipe].append(_rounds(config, dataset))
        best = {name: min(found, key=lambda pair: pair[0]) for name, found in runs.items()}
        ratio = best["feddf"][0] / best["fedavg"][0]
        shown = f"{best['feddf'][0]:.3f} s a round, FedAvg {best['fedavg'][0]:.3f} s, ratio {ratio:.2f}"
        print(f"\neverything, {invited} of {scale.devices} devices a round: {shown}")
        for name, (_, split) in best.items():
            print(f"{name:8s} " + "  ".join(f"{stage} {seconds:.3f}" for stage, seconds in split.items()))
        facts["everything_ratio"][invited] = round(ratio, 2)
        facts["everything_s"][invited] = {name: round(seconds, 4) for name, (seconds, _) in best.items()}
        facts["everything_split"][invited] = {
            name: {stage: round(seconds, 4) for stage, seconds in split.items()} for name, (_, split) in best.items()
        }
    return facts


def _rounds(config: Any, dataset: Any) -> tuple[float, dict[str, float]]:
    from fleet.simulation.simulation import Simulation

    with Simulation(config, dataset) as simulation:
        simulation.run_round(1)
        start = time.perf_counter()
        results = [simulation.run_round(number) for number in range(2, config.rounds + 1)]
        scoring = results[-1].seconds_by["score"]
        seconds = (time.perf_counter() - start - scoring) / len(results)
    stages = [stage for stage in results[0].seconds_by if stage != "score"]
    return seconds, {stage: fmean(r.seconds_by.get(stage, 0.0) for r in results) for stage in stages}
