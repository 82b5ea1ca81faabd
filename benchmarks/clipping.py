"""Cost of gradient clipping per step: perceptrons alone and stacked, and networks through autograd.

    python benchmarks/clipping.py [--json] [--quick]

Steps without clipping and with a norm that is exceeded take turns in one process; least CPU time, in microseconds.
`--quick`: one perceptron, two steps.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from _quick import add_quick

from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import train_local
from fleet.fast.sample_store import Shelf
from fleet.fast.stacked_perceptrons import Pupils, train_stacked
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from models.split import Prototype

STEPS, ROUNDS = 40, 15  # of a training, and trainings
NAMES = ("mlp:fp32", "mlp:w1", "fedrad_mlp:fp32", "cnn:fp32", "mcmahan_cnn:fp32")


def model_of(name: str) -> Prototype:
    """A prototype with MNIST's input shape."""
    spec = PrototypeSpec(*parse_prototype(name), (1, 28, 28), 10, 32)
    return build(spec, generator=torch.Generator().manual_seed(0))


def alone(model: Prototype, how: LocalTraining) -> float:
    """Seconds per step of one device that trains alone."""
    x, y = torch.randn(500, 1, 28, 28), torch.randint(10, (500,))
    begun = time.process_time()
    train_local(model, x, y, how, generator=torch.Generator().manual_seed(0))
    return (time.process_time() - begun) / how.steps


def stacked(model: Prototype, how: LocalTraining, devices: int = 5) -> float:
    """Seconds per step and device of several stacked devices."""
    x, y = torch.randn(500 * devices, 784), torch.randint(10, (500 * devices,))
    generators = [torch.Generator().manual_seed(k) for k in range(devices)]
    pupils = Pupils(Shelf(x), torch.arange(len(y)), y, [500] * devices, generators)
    begun = time.process_time()
    train_stacked(model, pupils, how)
    return (time.process_time() - begun) / how.steps / devices


def compare(
    name: str, step: Callable[[Prototype, LocalTraining], float], how: LocalTraining, rounds: int
) -> tuple[float, float]:
    """The least time of several rounds, without and with clipping, which take turns."""
    found: dict[float, list[float]] = {0.0: [], 0.01: []}
    for _ in range(rounds):
        for clip, seconds in found.items():
            seconds.append(step(model_of(name), replace(how, clip=clip)))
    free, clipped = (1e6 * min(seconds) for seconds in found.values())
    return free, clipped


def main() -> None:
    """Print a line per network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--json", action="store_true")
    add_quick(parser)
    a = parser.parse_args()
    torch.set_num_threads(1)
    names, steps, rounds = (NAMES[:1], 2, 1) if a.quick else (NAMES, STEPS, ROUNDS)
    how = LocalTraining(lr=0.01, batch_size=a.batch, steps=steps, momentum=a.momentum)
    print(f"{'batch ' + str(a.batch):26s}{'free':>9s}{'clipped':>9s}{'ratio':>7s}")
    ratios = {}
    for name in names:
        for way, step in (("alone", alone), ("stacked", stacked)):
            if way == "stacked" and not name.startswith("mlp"):
                continue
            free, clipped = compare(name, step, how, rounds)
            ratios[f"{name} {way}"] = round(clipped / free, 3)
            print(f"{name + ' ' + way:26s}{free:9.0f}{clipped:9.0f}{clipped / free:7.2f}")
    if a.json:
        print(json.dumps(ratios))


if __name__ == "__main__":
    main()
