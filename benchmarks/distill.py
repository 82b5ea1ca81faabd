"""Ensemble distillation against a plain loop, and the cost of FedRAD's scores relative to the teachers' forward passes.

    python benchmarks/distill.py [--json] [--quick]

The plain loop follows FedDF's pseudo-code: every teacher evaluates the batch of every step. It uses plain torch:
modules in evaluation mode, `torch.optim`, `clip_grad_norm_`. Both learn from the same batches in the same order,
without augmentation. Figures are CPU seconds, which other load disturbs least; `wall_speedup` is wall time and includes
the effect of several cores.

Speed is measured with FedDF's Adam. Equality of both students is checked with SGD, on the targets of the plain loop's
teachers: Adam divides each gradient by its own magnitude, so where that is rounding noise its sign decides a whole
step, and any two float32 programs drift apart by steps of the learning rate, as `adam_difference` shows.

`--quick`: two teachers, two steps, a few samples.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from _quick import add_quick
from torch import Tensor, nn
from torch.nn import functional as F

from aggregator.fusion.averages.mean import weighted_mean
from aggregator.fusion.students.distill import distill
from aggregator.fusion.teachers.ensemble import Ensemble
from aggregator.fusion.teachers.logits import StateTeacher, all_logits
from aggregator.recipes.catalogue import Distillation
from core.settings import replace
from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import train_local
from models.build import build
from models.spec import PrototypeSpec, parse_prototype

RESNET = PrototypeSpec(*parse_prototype("resnet8"), (3, 32, 32), 10)
MLP = PrototypeSpec(*parse_prototype("fedrad_mlp"), (1, 28, 28), 10)
State = dict[str, Tensor]


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The size of the benchmark."""

    teachers: int
    samples: int
    how: Distillation
    scored: int  # teachers of FedRAD's scores
    images: int

    @property
    def sgd(self) -> Distillation:
        """The same with SGD."""
        return replace(self.how, optimizer="sgd", lr=0.1)


FULL = Scale(
    teachers=20,
    samples=2_000,
    how=Distillation(steps=100, batch_size=128, shuffle=False),
    scored=30,
    images=10_000,
)
QUICK = Scale(teachers=2, samples=32, how=Distillation(steps=2, batch_size=16, shuffle=False), scored=3, images=64)


@dataclass(frozen=True, slots=True)
class Timed(Generic[T]):
    """A result and its time."""

    result: T
    cpu: float
    wall: float


def timed(work: Callable[[], T]) -> Timed[T]:
    cpu, wall = time.process_time(), time.perf_counter()
    result = work()
    return Timed(result, time.process_time() - cpu, time.perf_counter() - wall)


def seeded(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def samples(spec: PrototypeSpec, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Learnable samples: noise around one pattern per class."""
    patterns = torch.randn(spec.classes, *spec.input_shape, generator=seeded(99))
    generator = seeded(seed)
    y = torch.randint(spec.classes, (count,), generator=generator)
    return patterns[y] + torch.randn(count, *spec.input_shape, generator=generator), y


def trained(spec: PrototypeSpec, seed: int, steps: int, lr: float) -> State:
    """One device's model: the common start, trained on its own samples."""
    model = build(spec, generator=seeded(0))
    x, y = samples(spec, 128, 100 + seed)
    train_local(model, x, y, LocalTraining(lr=lr, batch_size=32, steps=steps), generator=seeded(seed))
    return {name: t.clone() for name, t in model.state_dict().items() if not name.endswith("num_batches_tracked")}


def teacher_of(spec: PrototypeSpec, number: int, state: State) -> StateTeacher:
    return StateTeacher(device=f"device-{number:02d}", spec=spec, state=lambda: state)


def module_of(spec: PrototypeSpec, state: Mapping[str, Tensor]) -> nn.Module:
    model = build(spec)
    model.load_state_dict(dict(state), strict=False)
    return model


def plain_targets(teachers: list[nn.Module], batch: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.stack([teacher(batch) for teacher in teachers]).mean(0)


def plain_loop(start: State, x: Tensor, how: Distillation, answer: Callable[[int, Tensor], Tensor]) -> State:
    """A student in plain torch; `answer(step, batch)` computes the targets of every step."""
    student = module_of(RESNET, start).train()
    make = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[how.optimizer]
    optimizer = make(student.parameters(), lr=how.lr)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, how.steps)
    batches = list(x.split(how.batch_size))
    for step in range(how.steps):
        batch = batches[step % len(batches)]
        target = answer(step, batch)
        loss = F.kl_div(student(batch).log_softmax(1), target.softmax(1), reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(student.parameters(), how.clip)
        optimizer.step()
        cosine.step()
    return student.state_dict()


def every_teacher_each_step(
    states: list[State], start: State, x: Tensor, how: Distillation
) -> tuple[State, list[Tensor]]:
    """The plain loop with Adam, and the targets of every step."""
    teachers = [module_of(RESNET, state).eval() for state in states]
    seen: list[Tensor] = []

    def answer(_step: int, batch: Tensor) -> Tensor:
        seen.append(plain_targets(teachers, batch))
        return seen[-1]

    return plain_loop(start, x, how, answer), seen


def each_sample_once(states: list[State], start: State, x: Tensor, how: Distillation) -> tuple[State, Tensor]:
    """Ours with Adam, and its targets."""
    teachers = [teacher_of(RESNET, number, state) for number, state in enumerate(states)]
    targets = Ensemble(teachers, x, teach="mean-logits").taught()
    return distill(build(RESNET), start, x, targets, how, generator=seeded(0)).state, targets


def difference(ours: State, theirs: State) -> float:
    """The largest difference over all tensors, including BatchNorm's statistics."""
    return max((value - theirs[name]).abs().max().item() for name, value in ours.items())


def scoring(scale: Scale) -> tuple[float, float]:
    """CPU seconds of the forward passes of FedRAD's teachers, and of the pass that also computes medians and scores."""
    states = [trained(MLP, number, 5, 0.05) for number in range(scale.scored)]
    teachers = [teacher_of(MLP, number, state) for number, state in enumerate(states)]
    x, _ = samples(MLP, scale.images, 7)
    list(all_logits(teachers, x[:1]))  # the template is exported once per aggregator process
    forwards, scored = math.inf, math.inf
    for _ in range(3):
        forwards = min(forwards, timed(lambda: list(all_logits(teachers, x))).cpu)
        ensemble = Ensemble(teachers, x, teach="median-logits", scored=True)
        scored = min(scored, timed(ensemble.scores).cpu)
    return forwards, scored


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    add_quick(parser)
    args = parser.parse_args()
    torch.set_num_threads(1)
    scale = QUICK if args.quick else FULL

    states = [trained(RESNET, number, 4, 0.1) for number in range(scale.teachers)]
    start = weighted_mean(states, [1] * len(states))
    x, _ = samples(RESNET, scale.samples, 7)
    fast = timed(lambda: each_sample_once(states, start, x, scale.how))
    plain = timed(lambda: every_teacher_each_step(states, start, x, scale.how))
    (ours, targets), (theirs, seen) = fast.result, plain.result
    adam = difference(ours, theirs)
    sgd_ours = distill(build(RESNET), start, x, targets, scale.sgd, generator=seeded(0)).state
    sgd = difference(sgd_ours, plain_loop(start, x, scale.sgd, lambda step, _: seen[step]))
    moved = difference(sgd_ours, start)
    forwards, scored = scoring(scale)

    steps = f"{scale.how.steps} steps of {scale.how.batch_size}"
    print(f"{scale.teachers} ResNet-8 teachers, {scale.samples:,} samples, {steps}, seconds:")
    print(f"{'':24s} {'CPU':>8s} {'clock':>8s}")
    print(f"{'every teacher each step':24s} {plain.cpu:8.1f} {plain.wall:8.1f}")
    print(f"{'each sample once':24s} {fast.cpu:8.1f} {fast.wall:8.1f}")
    print(f"{plain.cpu / fast.cpu:.1f} times faster ({plain.wall / fast.wall:.1f} in wall time); ", end="")
    print(f"students differ by at most {sgd:.1e} (SGD; moved by up to {moved:.1e}), {adam:.1e} with Adam")
    overhead = (scored - forwards) / forwards
    print(f"\n{scale.scored} MLP teachers on {scale.images:,} images: forwards {forwards:.2f} s, ", end="")
    print(f"with medians and scores {scored:.2f} s, {100 * overhead:.1f} % more")
    if args.json:
        facts = {
            "speedup": round(plain.cpu / fast.cpu, 2),
            "wall_speedup": round(plain.wall / fast.wall, 2),
            "max_abs_difference": sgd,
            "adam_difference": adam,
            "scoring_overhead": round(overhead, 4),
            "plain_s": round(plain.cpu, 2),
            "ours_s": round(fast.cpu, 2),
            "forwards_s": round(forwards, 3),
            "scored_s": round(scored, 3),
        }
        print(json.dumps(facts))


if __name__ == "__main__":
    main()
