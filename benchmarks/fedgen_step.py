"""Cost of a local step guided by FedGen's generator, against a plain one.

    python benchmarks/fedgen_step.py [--json] [--quick]

The FedGen CNN on batches of 32 MNIST-sized images, forward, backward and SGD, one thread, through `train_local`. All
variants take turns in the same run, so that a busy machine slows all of them; the ratio is that of the medians of the
process's own CPU time. `paper` draws 32 latents a step, `reference` 64, for its second term. `--quick`: one
prototype, two steps.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from _quick import add_quick

sys.path.insert(0, str(Path(__file__).parents[1]))

from edge_agent.objectives.fedgen import GeneratedObjective
from edge_agent.objectives.fedgen_weights import PAPER, REFERENCE, Guidance
from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import train_local
from models.build import build
from models.generator import build_generator
from models.latents import Latents, prototype_of
from models.spec import PrototypeSpec, parse_prototype
from quant.pack import pack_state
from wire.messages import ModelHeader

LIMIT = 1.25  # times the plain step
SHAPE, CLASSES, LATENT, STEPS, SAMPLES = (1, 28, 28), 10, 32, 20, 640
FORMS: dict[str, Guidance | None] = {"plain": None, "paper": PAPER, "reference": REFERENCE}


def latents(noise: str) -> Latents:
    """A new generator as a device receives it."""
    net = build_generator(CLASSES, LATENT, noise=noise, generator=torch.Generator().manual_seed(0))  # type: ignore[arg-type]
    tensors = pack_state({**net.state_dict(), "labels": torch.full((CLASSES,), 1 / CLASSES)}, floats="fp16")
    header = ModelHeader(
        round=1, prototype=prototype_of(noise), input_shape=(32,), classes=CLASSES, latent=LATENT, recipe="fedgen"
    )
    return Latents.from_tensors(tensors, header)


def round_of(prototype: str, how: Guidance | None, batch: int, steps: int) -> Callable[[], None]:
    """A round of local training."""
    spec = PrototypeSpec(*parse_prototype(prototype), SHAPE, CLASSES, LATENT)
    model = build(spec, generator=torch.Generator().manual_seed(0))
    x = torch.randn(SAMPLES, *SHAPE, generator=torch.Generator().manual_seed(1))
    y = torch.arange(SAMPLES) % CLASSES
    training = LocalTraining(lr=0.01, batch_size=batch, steps=steps)
    received = latents("paper" if how is PAPER else "reference")

    def run() -> None:
        objective = None if how is None else GeneratedObjective(received, how, 2, rng=np.random.default_rng(0))
        train_local(model, x, y, training, generator=torch.Generator().manual_seed(0), objective=objective)

    return run


def medians(rounds: dict[str, Callable[[], None]], repeat: int, steps: int) -> dict[str, float]:
    """Median CPU milliseconds per step; the variants take turns by round."""
    seconds: dict[str, list[float]] = {name: [] for name in rounds}
    for turn in range(repeat + 2):
        for name, run in rounds.items():
            start = time.process_time()
            run()
            if turn >= 2:  # the first turns warm up
                seconds[name].append((time.process_time() - start) / steps)
    return {name: 1000 * statistics.median(values) for name, values in seconds.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prototypes", nargs="+", default=["cnn:fp32", "cnn:w1"])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=30, help="timed rounds of each variant")
    parser.add_argument("--json", action="store_true", help="end with one JSON object of the ratios")
    add_quick(parser)
    args = parser.parse_args()
    if args.quick:
        args.prototypes, args.repeat = ["cnn:fp32"], 1
    steps = 2 if args.quick else STEPS
    torch.set_num_threads(1)
    ratios: dict[str, float] = {}
    print(f"{'prototype':12}{'loss':12}{'ms/step':>9}{'x plain':>9}    one thread, batch {args.batch}")
    for prototype in args.prototypes:
        rounds = {name: round_of(prototype, how, args.batch, steps) for name, how in FORMS.items()}
        ms = medians(rounds, args.repeat, steps)
        for name, value in ms.items():
            ratios[f"{prototype}:{name}"] = round(value / ms["plain"], 3)
            print(f"{prototype:12}{name:12}{value:9.2f}{value / ms['plain']:9.2f}")
    if args.json:
        print(json.dumps({**ratios, "limit": LIMIT}))


if __name__ == "__main__":
    main()
