"""Who teaches which samples, and what is reported before anybody learns. Whole rounds: test_round.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from aggregator.fusion.pipeline.distillation import learn, prepare, report, report_together, teach
from aggregator.fusion.pipeline.prototype import Course, average, screen, weigh
from aggregator.fusion.types import Group, Memory, Received, Server
from aggregator.recipes.catalogue import Recipe, find_recipe
from core.errors import RoundError
from models.build import build
from models.seeding import torch_rng
from models.spec import PrototypeSpec, parse_prototype

MLP = PrototypeSpec(*parse_prototype("mlp:fp32"), (1, 4, 4), 3, 6)
X = torch.randn(40, 1, 4, 4, generator=torch.Generator().manual_seed(0))
FEDDF = find_recipe("feddf", {"steps": 2, "batch_size": 8})


def state(name: str) -> dict[str, torch.Tensor]:
    return dict(build(MLP, generator=torch_rng(0, name)).state_dict())


def received(device: str, **changes: object) -> Received:
    return replace(Received(device=device, num_examples=1, state=lambda: state(device)), **changes)


def course(*updates: Received, recipe: Recipe = FEDDF, trust: dict[str, float] | None = None) -> Course:
    """A prototype whose updates have been averaged."""
    group = Group(spec=MLP, previous=state("published"), updates=updates)
    made = screen(recipe, group, Server(), 1, Memory())
    made.view = replace(made.view, trust=trust or {})
    made.weights = weigh(recipe, made.view)
    made.state = average(recipe, made)
    return made


def test_whole_models_teach_late_ones_too_on_no_more_samples_than_the_steps_can_draw() -> None:
    server = Server(source=X)
    lesson = prepare(FEDDF, [course(received("a"), received("b", late=True))], server, 1)
    assert lesson is not None
    assert list(lesson.ensemble.devices) == ["a", "b"]
    assert len(lesson.x) == 2 * 8
    again = prepare(FEDDF, [course(received("a"))], server, 1)
    other = prepare(FEDDF, [course(received("a"))], server, 2)
    assert torch.equal(lesson.x, again.x)
    assert not torch.equal(lesson.x, other.x)


def test_without_samples_or_teachers_there_is_no_lesson() -> None:
    with pytest.raises(RoundError, match="recipe feddf needs unlabeled samples"):
        prepare(FEDDF, [course(received("a"))], Server(), 1)
    assert prepare(find_recipe("edgestill"), [course(received("a"))], Server(), 1) is None
    assert prepare(FEDDF, [course()], Server(source=X), 1) is None


def test_untrusted_devices_do_not_teach() -> None:
    courses = [course(received("a"), received("b"), received("c"), trust={"a": 1.0, "b": 0.0, "c": 0.1})]
    server = Server(source=X)
    lesson = prepare(FEDDF, courses, server, 1)
    assert list(teach(FEDDF, courses, lesson, server).devices) == ["a", "c"]


def test_only_prototypes_whose_average_counts_learn() -> None:
    learning, idle = course(received("a")), course(received("b", late=True))
    server = Server(source=X)
    lesson = prepare(FEDDF, [learning, idle], server, 1)
    before = learning.state["predictor.weight"].clone()
    learn(FEDDF, [learning, idle], lesson, teach(FEDDF, [learning, idle], lesson, server), server)
    assert learning.metrics["distill_steps"] == 2.0
    assert not torch.equal(learning.state["predictor.weight"], before)
    assert idle.metrics == {}
    assert torch.equal(idle.state["predictor.weight"], state("published")["predictor.weight"])


def test_averages_and_ensemble_are_scored_on_labelled_samples() -> None:
    with torch.no_grad():
        model = build(MLP)
        model.load_state_dict(state("a"))
        labels = model.eval()(X).argmax(1)
    one, none = course(received("a")), course()
    server = Server(source=X, test=(X, labels))
    lesson = prepare(FEDDF, [one, none], server, 1)
    report([one, none], lesson.ensemble, server)
    assert one.metrics == {"average_accuracy": 1.0, "ensemble_accuracy": 1.0}
    assert none.metrics == {}
    report_together([none], server, 1)
    assert none.metrics == {}
    report_together([one, none], server, 1)
    assert none.metrics == {"ensemble_accuracy": 1.0}
