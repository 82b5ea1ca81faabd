"""Screen, weigh, average of one prototype: who counts, by how much, and what becomes of predictors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from aggregator.fusion.pipeline.round import fuse_round
from aggregator.fusion.types import Fused, Group, Memory, Received, Server
from aggregator.recipes import parts
from aggregator.recipes.catalogue import Recipe, find_recipe
from core.errors import RoundError
from tests.aggregator.fusion.views import SPEC, received

NAME = str(SPEC)


def state(extractor: float, predictor: float, mean: float = 0.0) -> dict[str, torch.Tensor]:
    return {
        "extractor.w": torch.tensor([extractor]),
        "extractor.running_mean": torch.tensor([mean]),
        "predictor.w": torch.tensor([predictor]),
    }


def predictor_only(device: str, value: float, examples: int) -> Received:
    alone = {"predictor.w": torch.tensor([value])}
    return replace(received(device, alone, examples), predictor_only=True)


def fuse(recipe: Recipe, updates: Sequence[Received], memory: Memory | None = None) -> Fused:
    group = Group(spec=SPEC, previous=state(0, 0), updates=updates)
    return fuse_round(recipe, [group], Server(), 1, memory or Memory())


def values(fused: Fused) -> list[float]:
    return [tensor.item() for tensor in fused.states[NAME].values()]


FEDAVG = find_recipe("fedavg")


def test_fedavg_weighs_by_examples_and_says_so() -> None:
    fused = fuse(FEDAVG, [received("a", state(0, 4), 1), received("b", state(4, 0), 3)])
    assert values(fused) == [3.0, 0.0, 1.0]
    assert {d: r.weight for d, r in fused.devices.items()} == {"a": 0.25, "b": 0.75}
    assert set(fused.seconds) == {"screen", "weigh", "average"}


def test_late_updates_are_not_averaged() -> None:
    late = replace(received("c", state(9, 9), 100), late=True)
    fused = fuse(FEDAVG, [received("a", state(1, 2), 1), late])
    assert values(fused) == [1.0, 0.0, 2.0]
    assert fused.devices["c"].weight == 0.0


def test_predictors_alone_join_the_predictor_and_leave_the_rest() -> None:
    fused = fuse(FEDAVG, [received("a", state(1, 1), 1), predictor_only("b", 3.0, 1)])
    assert values(fused) == [1.0, 0.0, 2.0]
    only = fuse(FEDAVG, [predictor_only("a", 3.0, 1), predictor_only("b", 9.0, 2)])
    assert values(only) == [0.0, 0.0, 7.0]


def test_a_whole_model_that_counts_for_less_counts_for_less_in_the_predictor_too() -> None:
    """Uniform weights of two whole models with 1 and 3 examples: each stands for 2 of the 4 beside the third's 4."""
    recipe = find_recipe("fedavg", {"weigh": "uniform"})
    fused = fuse(recipe, [received("a", state(0, 0), 1), received("b", state(0, 8), 3), predictor_only("c", 2.0, 4)])
    assert values(fused)[2] == (2 * 0 + 2 * 8 + 4 * 2) / 8


def test_predictors_are_averaged_by_the_recipes_own_average() -> None:
    updates = [received("a", state(1, 1), 1), predictor_only("b", 3.0, 1), predictor_only("c", 1000.0, 1)]
    assert values(fuse(find_recipe("comed"), updates))[2] == 3.0


def test_running_statistics_of_the_last_update_on_request() -> None:
    updates = [received("a", state(1, 1, mean=2), 1), received("b", state(3, 3, mean=8), 1)]
    assert values(fuse(FEDAVG, updates)) == [2.0, 5.0, 2.0]
    assert values(fuse(find_recipe("fedavg", {"bn": "last"}), updates)) == [2.0, 8.0, 2.0]


def test_momentum_is_remembered_and_the_memory_given_is_left_alone() -> None:
    recipe = find_recipe("fedavgm", {"server_momentum": 0.5})
    before = Memory()
    first = fuse(recipe, [received("a", state(1, 1), 1)], before)
    assert before == Memory()
    assert values(first) == [1.0, 0.0, 1.0]  # v = 0 - 1, w = 0 + 1
    second = fuse(recipe, [received("a", state(1, 1), 1)], first.memory)
    assert values(second) == [1.5, 0.0, 1.5]  # v = 0.5 * -1 - 1, w = 0 + 1.5


def test_a_model_that_is_not_finite_is_not_used() -> None:
    huge = [received(d, {**state(1, 1), "extractor.w": torch.tensor([3e38])}, 1) for d in ("a", "b")]
    recipe = find_recipe("fedavg", {"server_momentum": 0.9})
    memory = Memory(tensors={f"momentum/{NAME}/extractor.w": torch.tensor([-3e38])})
    fused = fuse(recipe, huge, memory)
    assert values(fused) == [0.0, 0.0, 0.0]
    assert fused.metrics[NAME] == {"kept": 1.0}
    assert list(fused.memory.tensors) == [f"momentum/{NAME}/predictor.w"]


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> object:
    """Put a function of the test among the parts."""

    def put(kind: str, function: object) -> Recipe:
        globals()["_part"] = function
        monkeypatch.setitem(parts.PARTS, kind, {**parts.PARTS[kind], "of-a-test": parts.BuiltIn(f"{__name__}:_part")})
        parts._installed.cache_clear()
        return find_recipe("fedavg", {kind: ("of-a-test",) if kind == "screen" else "of-a-test"})

    yield put
    parts._installed.cache_clear()


def test_a_screened_update_is_left_out_and_the_reason_reported(part) -> None:
    recipe = part("screen", lambda view: ["too odd" if d == "b" else None for d in view.devices])
    fused = fuse(recipe, [received("a", state(1, 1), 1), received("b", state(9, 9), 9)])
    assert values(fused) == [1.0, 0.0, 1.0]
    assert fused.devices["b"].screened == "too odd"
    assert (fused.devices["a"].screened, fused.devices["a"].weight) == (None, 1.0)


def test_where_all_are_screened_or_weigh_nothing_the_model_stays(part) -> None:
    updates = [received("a", state(1, 1), 1)]
    assert values(fuse(part("screen", lambda view: ["no"]), updates)) == [0.0, 0.0, 0.0]
    assert values(fuse(part("weigh", lambda view: [0.0]), updates)) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("kind", "answer", "words"),
    [
        ("weigh", [1.0], "weigh.of-a-test gave 1 values for 2 updates"),
        ("weigh", [1.0, -1.0], "weights are numbers >= 0"),
        ("weigh", [1.0, float("nan")], "weights are numbers >= 0"),
        ("screen", [None] * 3, "screen.of-a-test gave 3 values for 2 updates"),
    ],
)
def test_a_part_that_answers_nonsense_is_named(part, kind: str, answer: list, words: str) -> None:
    recipe = part(kind, lambda view: answer)
    with pytest.raises(RoundError, match=words):
        fuse(recipe, [received("a", state(1, 1), 1), received("b", state(1, 1), 1)])
