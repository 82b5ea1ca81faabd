"""Fusing one round by number of teachers: CPU seconds by stage, and peak memory, in one process.

    python benchmarks/teachers.py [--json] [--quick] [--teachers 10,30,100] [--recipes fedavg,feddf]
        [--prototypes cnn:fp32,resnet8:fp32] [--samples 500] [--steps 50]

Each row is a process of its own that calls `fuse_round` as the aggregator's worker does, with as many updates of one
prototype: FedAvg, which reads every update once, and FedDF, whose teachers all answer on the same unlabeled samples
before the student's steps. Updates are random weights: the arithmetic does not depend on them. CPU seconds of one
thread, which other load disturbs less than the clock. `--quick`: two teachers, a few samples.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

from _quick import add_quick

PROTOTYPES = {"cnn:fp32": (1, 28, 28), "resnet8:fp32": (3, 32, 32)}


@dataclass(frozen=True, slots=True)
class Row:
    prototype: str
    recipe: str
    teachers: int
    cpu_s: float
    teach_s: float  # of the teachers' answers, by the clock
    distill_s: float  # of the student
    peak_mb: int


def measure(prototype: str, recipe: str, teachers: int, samples: int, steps: int) -> Row:
    """One round in this process."""
    import resource

    import torch

    from aggregator.fusion.pipeline.round import fuse_round
    from aggregator.fusion.types import Group, Memory, Received, Server
    from aggregator.recipes.catalogue import find_recipe
    from models.build import build
    from models.spec import PrototypeSpec, parse_prototype

    torch.set_num_threads(1)
    shape = PROTOTYPES[prototype]
    spec = PrototypeSpec(*parse_prototype(prototype), shape, 10)

    def state(seed: int) -> dict[str, torch.Tensor]:
        return dict(build(spec, generator=torch.Generator().manual_seed(seed)).state_dict())

    def update(number: int) -> Received:
        return Received(
            device=f"device-{number:03d}",
            num_examples=100,
            state=lambda: state(number),
            label_counts=(10,) * 10,
        )

    x = torch.randn(samples, *shape, generator=torch.Generator().manual_seed(0))
    server = Server(source=None if recipe == "fedavg" else x, score_ensemble=False)
    group = Group(spec=spec, previous=state(0), updates=[update(number) for number in range(1, teachers + 1)])
    options = {} if recipe == "fedavg" else {"steps": steps, "batch_size": 128}
    before = time.process_time()
    fused = fuse_round(find_recipe(recipe, options), [group], server, 1, Memory())
    spent = time.process_time() - before
    return Row(
        prototype=prototype,
        recipe=recipe,
        teachers=teachers,
        cpu_s=round(spent, 2),
        teach_s=round(fused.seconds.get("teach", 0.0), 2),
        distill_s=round(fused.seconds.get("distill", 0.0), 2),
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--teachers", default="10,30,100", help="numbers of updates, separated by commas")
    parser.add_argument("--prototypes", default=",".join(PROTOTYPES), help="separated by commas")
    parser.add_argument("--recipes", default="fedavg,feddf", help="separated by commas")
    parser.add_argument("--samples", type=int, default=500, help="unlabeled samples")
    parser.add_argument("--steps", type=int, default=50, help="of the student")
    parser.add_argument("--one", nargs=3, metavar=("PROTOTYPE", "RECIPE", "TEACHERS"), help=argparse.SUPPRESS)
    add_quick(parser)
    args = parser.parse_args()
    if args.quick:
        args.teachers, args.samples, args.steps = "2", 64, 2
    if args.one:
        prototype, recipe, teachers = args.one
        print(json.dumps(asdict(measure(prototype, recipe, int(teachers), args.samples, args.steps))))
        return
    head = ("prototype", "recipe", "teachers", "CPU s", "teach s", "distill", "peak MB")
    print("{:14s} {:8s} {:>8s} {:>7s} {:>8s} {:>8s} {:>8s}".format(*head))
    rows = []
    for prototype in args.prototypes.split(","):
        for recipe in args.recipes.split(","):
            for teachers in args.teachers.split(","):
                rows.append(in_process(prototype, recipe, teachers, args))
                print(line(rows[-1]), flush=True)
    if args.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}))


def in_process(prototype: str, recipe: str, teachers: str, args: argparse.Namespace) -> Row:
    """A process of its own: the peak of memory is then this row's."""
    command = [sys.executable, __file__, "--one", prototype, recipe, teachers]
    command += ["--samples", str(args.samples), "--steps", str(args.steps)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return Row(**json.loads(done.stdout))


def line(r: Row) -> str:
    return (
        f"{r.prototype:14s} {r.recipe:8s} {r.teachers:8d} {r.cpu_s:7.2f} {r.teach_s:8.2f} {r.distill_s:8.2f}"
        f" {r.peak_mb:8d}"
    )


if __name__ == "__main__":
    main()
