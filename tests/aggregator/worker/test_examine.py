"""Whose update cannot be fused: found alone, and nobody is blamed for what is not the updates' fault."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from aggregator.fusion.types import Memory
from aggregator.recipes.catalogue import RECIPES, find_recipe
from aggregator.worker.examine import examine, outcome_of
from aggregator.worker.fuse_round import StoredGroup
from core.errors import ModelError
from models.spec import PrototypeSpec, parse_prototype
from tests.aggregator.journals import an_update, digest

SPEC = PrototypeSpec(*parse_prototype("mlp:fp32"), (1, 4, 4), 3, 8)


def refuse(error: Exception) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (lambda: None, ""),
        (kill, "it ended the worker process by signal 9"),
        (refuse(ModelError("too wide")), "too wide"),
        (refuse(MemoryError("none left")), "MemoryError: none left"),
        (lambda: os._exit(3), "exit code 3"),
        (refuse(SystemExit()), "SystemExit: "),
    ],
)
def test_what_work_does_to_its_process_is_told_by_another(work: Callable[[], None], reason: str) -> None:
    assert outcome_of(work) == reason


def examined(fails: Callable[[list[StoredGroup]], bool], recipe: str = "fedavg") -> dict[str, str]:
    """Of devices a to d, d's update late; `fails` decides by what is to be fused."""
    rows = [an_update(device) for device in "abc"]
    group = StoredGroup(spec=SPEC, base=digest("m"), rows=rows, late=[(an_update("d", late=True), digest("m"))])

    def compute(_recipe: object, _number: int, groups: list[StoredGroup], _memory: Memory) -> SimpleNamespace:
        if fails(groups):
            raise ModelError("no")
        return SimpleNamespace(states={})

    fuser = SimpleNamespace(compute=compute)
    return examine(fuser, find_recipe(recipe), 1, [group], Memory())


def names(groups: list[StoredGroup]) -> set[str]:
    return {r.device for g in groups for r in g.rows} | {r.device for g in groups for r, _ in g.late}


def test_those_that_fail_alone_are_the_culprits_late_teachers_too() -> None:
    assert examined(lambda groups: bool(names(groups) & {"b", "d"})) == {"b": "no", "d": "no"}


def test_where_the_published_model_itself_cannot_be_fused_nobody_is_blamed() -> None:
    assert examined(lambda groups: True) == {}
    assert examined(lambda groups: any(g.unchanged for g in groups)) == {}


def test_where_updates_fail_only_together_nobody_is_blamed() -> None:
    assert examined(lambda groups: len(names(groups)) > 1) == {}


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_recipe_is_examined_with_few_steps(name: str) -> None:
    """Seconds, not the minutes that a round takes: the recipe that is tried has the same parts."""
    from aggregator.worker.examine import _cheap

    cheap, whole = _cheap(RECIPES[name]), RECIPES[name]
    assert cheap.distill.steps <= 5
    assert cheap.generation is None or cheap.generation.steps <= 5
    assert (cheap.screen, cheap.weigh, cheap.average, cheap.teach) == (
        whole.screen,
        whole.weigh,
        whole.average,
        whole.teach,
    )
