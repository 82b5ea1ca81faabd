"""Prototypes distill side by side and come to the bits of one after the other."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch

from aggregator.fusion.process_pool import lent
from aggregator.fusion.students.distill import distill
from aggregator.fusion.students.parallel import Student, distill_all, serve
from aggregator.recipes.catalogue import Distillation
from models.build import build
from models.spec import PrototypeSpec, parse_prototype

HOW = Distillation(steps=6, batch_size=8, check_every=2)
X = torch.randn(40, 1, 8, 8, generator=torch.Generator().manual_seed(1))
TARGETS = torch.randn(40, 3, generator=torch.Generator().manual_seed(2))
VALIDATION = (X[:20], TARGETS[:20].argmax(1))


def spec_of(name: str) -> PrototypeSpec:
    return PrototypeSpec(*parse_prototype(name), (1, 8, 8), 3, 16)


def students() -> list[Student]:
    made = []
    for number, name in enumerate(("cnn", "cnn:w1", "fedrad_mlp")):  # the last has dropout
        model = build(spec_of(name), generator=torch.Generator().manual_seed(number))
        start = {n: t for n, t in model.state_dict().items() if not n.endswith("num_batches_tracked")}
        generator = torch.Generator().manual_seed(10 + number)
        made.append(Student(spec=model.spec, start=start, generator=generator))
    return made


def test_processes_come_to_the_bits_of_one_after_the_other() -> None:
    alone = distill_all(students(), X, TARGETS, HOW, validation=VALIDATION)
    together = distill_all(students(), X, TARGETS, HOW, validation=VALIDATION, processes=2)
    again = distill_all(students(), X, TARGETS, HOW, validation=VALIDATION, processes=2)
    for a, b, c in zip(alone, together, again, strict=True):
        assert (a.steps, a.best_step, a.accuracy, a.start_accuracy) == (
            b.steps,
            b.best_step,
            b.accuracy,
            b.start_accuracy,
        )
        assert a.state.keys() == b.state.keys()
        assert all(torch.equal(value, b.state[name]) for name, value in a.state.items())
        assert all(torch.equal(value, c.state[name]) for name, value in b.state.items())


def test_each_student_has_what_distill_gives_it_in_the_order_of_the_students() -> None:
    found = distill_all(students(), X, TARGETS, HOW)
    for student, got in zip(students(), found, strict=True):
        model = build(student.spec)
        expected = distill(model, student.start, X, TARGETS, HOW, generator=student.generator)
        assert all(torch.equal(value, got.state[name]) for name, value in expected.state.items())
        assert got.accuracy is None


class Listener:
    """A pool of one that notes in which order it is asked; the second student takes longest, then the first."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def ask_all(self, call: str, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        self.asked.append([request["number"] for request in requests])
        return [{**serve(request), "seconds": (2.0, 3.0, 1.0)[request["number"]]} for request in requests]


def test_who_took_longest_last_time_is_handed_out_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aggregator.fusion.students.parallel._took", {})
    listener = Listener()
    alone = distill_all(students(), X, TARGETS, HOW)
    with lent(listener):
        runs = [distill_all(students(), X, TARGETS, HOW, processes=2) for _ in range(2)]
    assert listener.asked == [[0, 1, 2], [1, 0, 2]]
    for run in runs:
        for a, b in zip(alone, run, strict=True):
            assert all(torch.equal(value, b.state[name]) for name, value in a.state.items())
