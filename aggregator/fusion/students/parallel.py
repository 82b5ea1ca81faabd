"""Parallel distillation of several prototypes: in processes on the CPU, in CUDA streams or on several GPUs.

The processes are kept for the next round, because importing torch takes a second or two. Tensors are passed as
safetensors files in a temporary folder, samples and targets once for all students. A student's result depends only on
its start, its samples and its generator, so one process or many give the same bits. Masks of
dropout are drawn on the CPU, for each student by a generator of its own.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import asdict
from safetensors.torch import load_file, save_file
from torch import Tensor

from aggregator.fusion.process_pool import shared_pool
from aggregator.fusion.students.distill import Distilled, distill
from aggregator.recipes.catalogue import Distillation
from models.build import build
from models.compute_device import CPU, devices_of
from models.spec import PrototypeSpec

__all__ = ["Student", "distill_all"]

Labelled = tuple[Tensor, Tensor]
_START = "start/"  # prefix of the names of the initial weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Student:
    """A prototype to be distilled."""

    spec: PrototypeSpec
    start: Mapping[str, Tensor]
    generator: torch.Generator


def distill_all(
    students: Sequence[Student],
    x: Tensor,
    targets: Tensor,
    config: Distillation,
    *,
    validation: Labelled | None = None,
    device: torch.device = CPU,
    amp: str = "off",
    processes: int = 1,
) -> list[Distilled]:
    """Every student after distillation on the same targets, in the order given, at most `processes` at a time."""
    together = min(processes, len(students))
    if device.type not in ("cpu", "mps") and together > 1:
        return _in_streams(students, x, targets, config, validation, device, amp, together)
    if device.type == "cpu" and together > 1:
        return _in_processes(students, x, targets, config, validation, amp, together)
    return [_learn(student, x, targets, config, validation, device, amp) for student in students]


def _learn(
    student: Student,
    x: Tensor,
    targets: Tensor,
    config: Distillation,
    validation: Labelled | None,
    device: torch.device,
    amp: str,
) -> Distilled:
    model = build(student.spec, generator=torch.Generator().manual_seed(0))
    return distill(
        model,
        student.start,
        x,
        targets,
        config,
        validation=validation,
        generator=student.generator,
        device=device,
        amp=amp,
    )


def _in_streams(
    students: Sequence[Student],
    x: Tensor,
    targets: Tensor,
    config: Distillation,
    validation: Labelled | None,
    device: torch.device,
    amp: str,
    together: int,
) -> list[Distilled]:
    devices = devices_of(device)

    def learn(index: int) -> Distilled:
        mine = devices[index % len(devices)]
        with torch.cuda.stream(torch.cuda.Stream(mine)) if mine.type == "cuda" else nullcontext():
            return _learn(students[index], x, targets, config, validation, mine, amp)

    with ThreadPoolExecutor(together) as threads:
        return list(threads.map(learn, range(len(students))))


def _in_processes(
    students: Sequence[Student],
    x: Tensor,
    targets: Tensor,
    config: Distillation,
    validation: Labelled | None,
    amp: str,
    together: int,
) -> list[Distilled]:
    pool = shared_pool(together)
    with tempfile.TemporaryDirectory(prefix="edgestill-students-") as name:
        folder = Path(name)
        save_file({"x": x.contiguous(), "targets": targets.contiguous()}, folder / "samples")
        if validation is not None:  # a separate file: it may be a slice of x, which would be written completely
            save_file({"x": validation[0].contiguous(), "y": validation[1].contiguous()}, folder / "validation")
        requests = []
        for index, student in enumerate(students):
            own = {f"{_START}{key}": value.contiguous().clone() for key, value in student.start.items()}
            save_file({**own, "generator": student.generator.get_state()}, folder / f"student-{index}")
            requests.append({**_request(folder, index, student.spec, config), "amp": amp})
        order = _longest_first([student.spec for student in students])
        asked = pool.ask_all("aggregator.fusion.students.parallel:serve", [requests[index] for index in order])
        answers = dict(zip(order, asked, strict=True))
        for index, student in enumerate(students):
            _took[student.spec] = answers[index].pop("seconds")
        return [_distilled(folder, index, answers[index]) for index in range(len(students))]


_took: dict[PrototypeSpec, float] = {}  # seconds of the last student of each kind


def _longest_first(specs: Sequence[PrototypeSpec]) -> list[int]:
    """The order of dispatching students, longest first, so that none is left at the end; unknown ones first."""
    return sorted(range(len(specs)), key=lambda index: -_took.get(specs[index], math.inf))


def _request(folder: Path, index: int, spec: PrototypeSpec, config: Distillation) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "number": index,
        **spec.to_json(),
        "config": asdict(config),
        "threads": torch.get_num_threads(),  # as many as here, or sums would have other orders
    }


def serve(request: Mapping[str, Any]) -> dict[str, Any]:
    """In a process of the pool: one student, from files to a file."""
    begun = time.perf_counter()
    torch.set_num_threads(request["threads"])
    folder, index = Path(request["folder"]), request["number"]
    samples, own = load_file(folder / "samples"), load_file(folder / f"student-{index}")
    spec = PrototypeSpec.from_json(request)
    generator = torch.Generator()
    generator.set_state(own.pop("generator"))
    start = {name.removeprefix(_START): value for name, value in own.items()}
    validation = None
    if (folder / "validation").exists():
        labelled = load_file(folder / "validation")
        validation = labelled["x"], labelled["y"]
    student = Student(spec=spec, start=start, generator=generator)
    config = Distillation(**request["config"])
    distilled = _learn(student, samples["x"], samples["targets"], config, validation, CPU, request["amp"])
    save_file(distilled.state, folder / f"distilled-{index}")
    facts = ("steps", "best_step", "accuracy", "start_accuracy")
    return {**{name: getattr(distilled, name) for name in facts}, "seconds": time.perf_counter() - begun}


def _distilled(folder: Path, index: int, answer: Mapping[str, Any]) -> Distilled:
    return Distilled(state=load_file(folder / f"distilled-{index}"), **answer)
