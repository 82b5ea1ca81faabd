"""What is published beside the models, by the predictors that came: a generator, or logits by label."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from aggregator.fusion.pipeline.generator import make_side_artifact
from aggregator.fusion.pipeline.prototype import Course, average, screen, weigh
from aggregator.fusion.types import Group, Memory, Received, Server
from aggregator.recipes.catalogue import Recipe, find_recipe
from models.build import build
from models.roles import LABEL_LOGITS
from models.seeding import torch_rng
from models.spec import PrototypeSpec, parse_prototype

MLP = PrototypeSpec(*parse_prototype("mlp:fp32"), (1, 4, 4), 3, 6)
SMALL = {"generator_noise_width": 4, "generator_hidden": 8, "generator_steps": 3}
FEDGEN, OURS = find_recipe("fedgen", SMALL), find_recipe("edgestill", SMALL)
SERVER = Server(seed=5)


def state(name: str) -> dict[str, torch.Tensor]:
    return dict(build(MLP, generator=torch_rng(0, name)).state_dict())


def received(device: str, **changes: object) -> Received:
    update = Received(device=device, num_examples=6, state=lambda: state(device), label_counts=(2, 2, 2))
    return replace(update, **changes)


def course(recipe: Recipe, *updates: Received, trust: dict[str, float] | None = None) -> Course:
    group = Group(spec=MLP, previous=state("published"), updates=updates)
    made = screen(recipe, group, SERVER, 1, Memory())
    made.view = replace(made.view, trust=trust or {})
    made.weights = weigh(recipe, made.view)
    made.state = average(recipe, made)
    return made


def generator(*updates: Received, trust: dict[str, float] | None = None) -> torch.Tensor:
    made = make_side_artifact(FEDGEN, [course(FEDGEN, *updates, trust=trust)], SERVER, 1, Memory())
    assert made is not None
    return made.tensors["fc2.weight"]


def test_nobody_in_time_no_generator() -> None:
    memory = Memory()
    assert make_side_artifact(FEDGEN, [course(FEDGEN)], SERVER, 1, memory) is None
    assert make_side_artifact(FEDGEN, [course(FEDGEN, received("a", late=True))], SERVER, 1, memory) is None
    assert memory == Memory()


def test_untrusted_predictors_do_not_shape_the_generator() -> None:
    with_b = generator(received("a"), received("b"), trust={"a": 1.0, "b": 0.0})
    with_c = generator(received("a"), received("b", state=lambda: state("c")), trust={"a": 1.0, "b": 0.0})
    assert torch.equal(with_b, with_c)
    assert not torch.equal(with_b, generator(received("a"), received("b")))


def test_where_nobody_is_trusted_all_count_alike() -> None:
    alike = generator(received("a"), received("b"))
    assert torch.equal(generator(received("a"), received("b"), trust={"a": 0.0, "b": 0.0}), alike)


@pytest.mark.parametrize("source", [None, torch.zeros(4, 1, 4, 4)])
def test_predictors_are_refined_from_the_second_round_on_and_without_samples_only(source: torch.Tensor | None) -> None:
    memory, server, moved = Memory(), replace(SERVER, source=source), []
    for number in (1, 2):
        one = course(OURS, received("a"), received("b"), received("c"))
        before = {name: w.clone() for name, w in one.state.items()}
        make_side_artifact(OURS, [one], server, number, memory)
        moved.append(sorted(name for name, w in one.state.items() if not torch.equal(w, before[name])))
    refined = ["predictor.bias", "predictor.weight"]
    assert moved[1] == ([] if source is not None else refined)
    assert set(moved[0]) <= set(refined)


def test_logits_by_label_are_those_of_devices_in_time() -> None:
    feddistill = find_recipe("feddistill")

    def sent(device: str, value: float, **changes: object) -> Received:
        extra = {LABEL_LOGITS: torch.full((3, 3), value)}
        return received(device, model=False, state=dict, extra=lambda: extra, **changes)

    one = course(feddistill, sent("a", 1.0), sent("b", 3.0), sent("c", 50.0, late=True))
    made = make_side_artifact(feddistill, [one], SERVER, 1, Memory())
    assert made is not None
    assert (made.classes, made.latent) == (3, 6)
    assert made.tensors[LABEL_LOGITS].unique().tolist() == [2.0]
    late = course(feddistill, sent("c", 50.0, late=True))
    assert make_side_artifact(feddistill, [late], SERVER, 1, Memory()) is None
