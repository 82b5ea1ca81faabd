"""Students, teachers, generator and scores on the pretend accelerator have the numbers of the CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from aggregator.evaluate import score_state
from aggregator.fusion.generator.side_artifact import make_generator
from aggregator.fusion.students.parallel import Student, distill_all
from aggregator.fusion.teachers.logits import StateTeacher, all_logits
from aggregator.fusion.types import Memory, Received, Server
from aggregator.recipes.catalogue import Distillation
from aggregator.recipes.generator import Generation
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from quant.pack import pack_state, unpack
from tests import accelerator

torch.set_num_threads(1)
ACC, CPU = torch.device(accelerator.NAME), torch.device("cpu")
X = torch.randn(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))
Y, TARGETS = torch.arange(40) % 3, torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
#: SGD: Adam's first steps are as long as the rate however small a gradient is, and its sign may be rounding.
HOW = Distillation(steps=6, batch_size=8, check_every=2, optimizer="sgd", lr=0.05, patience=100)


def spec(name: str) -> PrototypeSpec:
    return PrototypeSpec(*parse_prototype(name), (1, 8, 8), 3, 8)


def state(name: str, seed: int = 1) -> dict[str, torch.Tensor]:
    model = build(spec(name), generator=torch.Generator().manual_seed(seed))
    return unpack(pack_state(model.state_dict()))


def close(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, w in one.items():
        assert other[name].device == CPU
        torch.testing.assert_close(other[name], w, rtol=1e-5, atol=1e-5)


def students(names: tuple[str, ...], device: torch.device, processes: int = 1, **how: object) -> list:
    made = [
        Student(spec=spec(name), start=state(name), generator=torch.Generator().manual_seed(number))
        for number, name in enumerate(names)
    ]
    plan = Distillation(**{field: getattr(HOW, field) for field in HOW.__struct_fields__} | how)
    accelerator.fresh()
    done = distill_all(made, X, TARGETS, plan, validation=(X, Y), device=device, processes=processes)
    assert accelerator.used() == (device.type == "acc")
    return done


@pytest.mark.parametrize("how", [{}, {"optimizer": "adam", "lr": 1e-4}, {"swa": 2}], ids=["sgd", "adam", "swa"])
def test_students_of_all_kinds_are_those_of_the_cpu_also_several_at_once(how: dict[str, object]) -> None:
    names = ("mlp:fp32", "fedrad_mlp:fp32", "cnn:w1") if not how else ("mlp:fp32",)
    here = students(names, CPU, **how)
    for processes in (1, 3) if not how else (1,):  # threads share the device
        for one, other in zip(here, students(names, ACC, processes, **how), strict=True):
            assert (other.steps, other.best_step, other.accuracy) == (one.steps, one.best_step, one.accuracy)
            close(one.state, other.state)


def test_a_student_in_mixed_precision_is_about_the_same() -> None:
    made = [Student(spec=spec("cnn:w1"), start=state("cnn:w1"), generator=torch.Generator().manual_seed(0))]
    (mixed,) = distill_all(made, X, TARGETS, HOW, amp="bf16")
    (plain,) = students(("cnn:w1",), CPU, keep_start=False)
    assert {w.dtype for w in mixed.state.values()} == {torch.float32}
    assert float((mixed.state["predictor.weight"] - plain.state["predictor.weight"]).abs().max()) < 0.05


@pytest.mark.parametrize("name", ["mlp:fp32", "cnn:w1", "cnn:w4a4"])
def test_teachers_answer_as_on_the_cpu(name: str) -> None:
    teacher = StateTeacher(device="a", spec=spec(name), state=lambda: state(name))
    (here,), (there,) = (list(all_logits([teacher], X, compute_device=device)) for device in (CPU, ACC))
    assert there.device == CPU
    torch.testing.assert_close(there, here, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["mlp:fp32", "cnn:w1", "cnn:w2a2"])
def test_scores_are_those_of_the_cpu(name: str) -> None:
    here, there = (score_state(build(spec(name)), state(name), X, Y, device=device) for device in (CPU, ACC))
    assert there == pytest.approx(here, abs=1e-5)


@pytest.mark.parametrize("loss", ["mean-logits", "per-teacher"])
def test_the_generator_and_its_moments_are_those_of_the_cpu_round_after_round(loss: str) -> None:
    updates = [
        Received(device=str(n), num_examples=9, state=lambda n=n: state("mlp:fp32", n), label_counts=(n, 3, 9 - n))
        for n in range(4)
    ]

    def rounds(device: torch.device) -> tuple[dict, dict]:
        how = Generation(noise_width=4, hidden=16, steps=8, batch_size=8, loss=loss)  # type: ignore[arg-type]
        server, memory = Server(seed=3, device=device), Memory()
        accelerator.fresh()
        for number in (1, 2):
            made = make_generator(how, updates, server, number, memory, [1.0, 0.5, 0.0, 1.0])
        assert accelerator.used() == (device.type == "acc")
        assert made is not None
        return dict(made.tensors), dict(memory.tensors)

    for one, other in zip(rounds(CPU), rounds(ACC), strict=True):
        close(one, other)


def test_a_server_computes_on_the_cpu_at_float32_unless_told() -> None:
    assert (Server().device, Server().amp) == (CPU, "off")
    assert replace(Server(), device=ACC).device == ACC
