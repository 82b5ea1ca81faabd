"""The second half of a round: all received models of all prototypes teach, and each prototype's student learns.

FedDF for heterogeneous fleets (Lin et al. 2020, Algorithm 3, arXiv:2006.07242): the student of a prototype starts from
the average of its own devices, at full precision, and learns from the ensemble of all models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from aggregator.evaluate import score_state
from aggregator.fusion.pipeline.prototype import Course
from aggregator.fusion.students.batches import draw_samples
from aggregator.fusion.students.parallel import Student, distill_all
from aggregator.fusion.teachers.ensemble import Ensemble, UnansweredError
from aggregator.fusion.teachers.logits import OnnxTeacher, StateTeacher, Teacher
from aggregator.fusion.types import MakeTeacher, Received, Server, State
from aggregator.recipes.catalogue import Distillation, Recipe
from aggregator.recipes.parts import find_part
from core.errors import RoundError
from models.build import build
from models.seeding import torch_rng
from models.spec import PrototypeSpec

__all__ = ["Lesson", "UnansweredError", "learn", "prepare", "report", "report_together", "teach"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """The samples of a round and the received models that teach on them."""

    x: Tensor
    teachers: Sequence[Teacher]
    ensemble: Ensemble
    config: Distillation  # sized by the source


def prepare(recipe: Recipe, courses: Sequence[Course], server: Server, round_number: int) -> Lesson | None:
    """The teachers and their samples; None without either. Nothing is computed yet."""
    teachers = _received(courses, round_number, server.make_teacher) + [
        OnnxTeacher(device=f"ONNX teacher {n}", graph=graph) for n, graph in enumerate(server.teachers, start=1)
    ]
    if server.source is None:
        if recipe.needs_source:
            raise RoundError(f"recipe {recipe.name} needs unlabeled samples; give [fusion] source")
        return None
    if not teachers:
        return None
    x, config = server.source, recipe.distill.sized(len(server.source))
    if recipe.teach is not None:
        x = x[draw_samples(len(x), config, torch_rng(server.seed, "fusion", round_number, "samples"))]
    return Lesson(x=x, teachers=teachers, ensemble=_ensemble(recipe, teachers, x, server), config=config)


def _received(courses: Sequence[Course], round_number: int, make: MakeTeacher | None) -> list[Teacher]:
    make = make or _frozen
    return [
        make(course.group.spec, update, round_number)
        for course in courses
        for update in (*course.view.updates, *course.late)
    ]


def _frozen(spec: PrototypeSpec, update: Received, _: int) -> Teacher:
    return StateTeacher(device=update.device, spec=spec, state=update.state)


def _ensemble(recipe: Recipe, teachers: Sequence[Teacher], x: Tensor, server: Server) -> Ensemble:
    return Ensemble(
        teachers,
        x,
        teach=None if recipe.teach is None else find_part("teach", recipe.teach),
        temperature=recipe.distill.temperature,
        scored="scores" in recipe.needs,
        keep="answers" in recipe.needs,
        compute_device=server.device,
    )


def teach(recipe: Recipe, courses: Sequence[Course], lesson: Lesson, server: Server) -> Ensemble:
    """The teaching ensemble with computed targets, including FedBE's sampled models if the recipe has them.

    Untrusted devices are excluded as teachers: if a third of the teachers are adversarial, they shift every median.
    """
    ensemble = lesson.ensemble.without({d for course in courses for d, t in course.view.trust.items() if not t})
    if recipe.sample is not None:
        ensemble = _ensemble(recipe, [*lesson.teachers, *_sampled(recipe, courses)], lesson.x, server)
    ensemble.taught()
    return ensemble


def _sampled(recipe: Recipe, courses: Sequence[Course]) -> list[Teacher]:
    """The average of every prototype, and models sampled around it (Chen & Chao 2021, arXiv:2009.01974)."""
    from aggregator.fusion.averages.fedbe import sampled_models

    assert recipe.sample is not None
    made: list[Teacher] = []
    for course in courses:
        if course.counts:
            states = [course.state, *sampled_models(course.view, course.weights, recipe.sample, recipe.samples)]
            made += [_held(f"{course.name} sample {n}", course, state) for n, state in enumerate(states)]
    return made


def _held(name: str, course: Course, state: State) -> Teacher:
    return StateTeacher(device=name, spec=course.group.spec, state=lambda: state)


def learn(recipe: Recipe, courses: Sequence[Course], lesson: Lesson, ensemble: Ensemble, server: Server) -> None:
    """Distill into every prototype with a non-empty average; its course gets the student's state."""
    learning = [course for course in courses if course.counts]
    students = [
        Student(
            spec=course.group.spec,
            start=course.state if recipe.distill.start == "average" else dict(course.group.previous),
            generator=course.view.rng("distill"),
        )
        for course in learning
    ]
    done = distill_all(
        students,
        lesson.x,
        ensemble.taught(),
        lesson.config,
        validation=server.validation,
        device=server.device,
        amp=server.amp,
        processes=server.processes,
    )
    for course, distilled in zip(learning, done, strict=True):
        course.state = distilled.state
        course.metrics |= {"distill_steps": float(distilled.steps), "distill_best_step": float(distilled.best_step)}


def report(courses: Sequence[Course], ensemble: Ensemble, server: Server) -> None:
    """Accuracies of averages and ensemble before distillation, if there are labelled samples."""
    if server.test is None:
        return
    together = {"ensemble_accuracy": ensemble.accuracy(*server.test)} if server.score_ensemble else {}
    for course in courses:
        if course.counts:
            own = score_state(build(course.group.spec), course.state, *server.test, device=server.device)["accuracy"]
            course.metrics |= {"average_accuracy": own, **together}


def report_together(courses: Sequence[Course], server: Server, round_number: int) -> None:
    """How good the received models are together: argmax of the sum of their logits (FedEnsemble)."""
    teachers = _received(courses, round_number, server.make_teacher)
    if server.test is None or not teachers:
        return
    x, y = server.test
    together = Ensemble(teachers, x, compute_device=server.device).accuracy(x, y, "mean-logits")
    for course in courses:
        course.metrics["ensemble_accuracy"] = together
