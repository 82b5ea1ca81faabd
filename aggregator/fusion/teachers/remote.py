"""Teachers' forward passes in the workers of a cluster: states and samples are sent as files, logits returned.

On one machine teachers run as threads of this process (`logits.py`), without copies. A pool whose workers may be on
other machines sets `far` (`process_pool.py`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from aggregator.fusion.process_pool import Far
from aggregator.fusion.teachers.logits import OnnxTeacher, StateTeacher, Teacher, all_logits
from models.spec import PrototypeSpec

__all__ = ["can_travel", "far_logits", "serve"]

TOGETHER = 4  # teachers per copy of the samples


def can_travel(teachers: Sequence[Teacher]) -> bool:
    """Whether all of them can be sent as files."""
    return all(isinstance(teacher, (StateTeacher, OnnxTeacher)) for teacher in teachers)


def far_logits(pool: Far, teachers: Sequence[Teacher], x: Tensor) -> Iterator[Tensor]:
    """The (N, C) logits of each teacher, in order; at most `TOGETHER` per worker are queued at a time."""
    wave = TOGETHER * max(pool.workers, 1)
    for start in range(0, len(teachers), wave):
        some = teachers[start : start + wave]
        size = -(-len(some) // max(pool.workers, 1))
        with tempfile.TemporaryDirectory(prefix="edgestill-teachers-") as name:
            parts = [some[at : at + size] for at in range(0, len(some), size)]
            requests = [_request(Path(name) / f"part-{n}", part, x) for n, part in enumerate(parts)]
            pool.ask_all("aggregator.fusion.teachers.remote:serve", requests)
            for request in requests:
                yield from load_file(Path(request["folder"]) / "logits")["logits"]


def _request(folder: Path, teachers: Sequence[Teacher], x: Tensor) -> dict[str, Any]:
    """A separate folder, all of whose files are sent to the worker."""
    folder.mkdir()
    save_file({"x": x.contiguous()}, folder / "samples")
    descriptions: list[dict[str, Any]] = []
    for index, teacher in enumerate(teachers):
        file = folder / f"teacher-{index}"
        if isinstance(teacher, OnnxTeacher):
            file.write_bytes(teacher.graph)
            descriptions.append({"device": teacher.device})
            continue
        assert isinstance(teacher, StateTeacher)
        save_file({name: w.detach().cpu().contiguous().clone() for name, w in teacher.state().items()}, file)
        descriptions.append({"device": teacher.device, **teacher.spec.to_json()})
    return {"folder": str(folder), "teachers": descriptions}


def serve(request: Mapping[str, Any]) -> dict[str, Any]:
    """In a worker: some teachers, from files to a file."""
    folder = Path(request["folder"])
    teachers = [_teacher(folder / f"teacher-{n}", description) for n, description in enumerate(request["teachers"])]
    x = load_file(folder / "samples")["x"]
    save_file({"logits": torch.stack(list(all_logits(teachers, x, workers=1)))}, folder / "logits")
    return {}


def _teacher(file: Path, description: Mapping[str, Any]) -> Teacher:
    if "prototype" not in description:
        return OnnxTeacher(device=description["device"], graph=file.read_bytes())
    state = load_file(file)
    return StateTeacher(device=description["device"], spec=PrototypeSpec.from_json(description), state=lambda: state)
