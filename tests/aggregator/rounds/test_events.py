"""Events and actions are complete: the engine takes every event, the conductor carries out every action."""

from __future__ import annotations

import ast
import inspect
from dataclasses import is_dataclass
from textwrap import dedent
from typing import get_args

import pytest

from aggregator import conductor, job_actions
from aggregator.rounds import buffered, engine, events

pytestmark = pytest.mark.light
EVENTS, ACTIONS = (get_args(union) for union in (events.Event, events.Action))


def classes_matched(*functions: object) -> set[str]:
    """The classes in the cases of some functions' match statements."""
    trees = [ast.parse(dedent(inspect.getsource(f))) for f in functions]
    return {node.cls.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.MatchClass)}


def test_every_class_is_an_event_or_an_action_and_frozen() -> None:
    defined = [value for value in vars(events).values() if inspect.isclass(value) and is_dataclass(value)]
    assert set(defined) == {*EVENTS, *ACTIONS, events.Later, events.GivenJob}
    assert all(kind.__dataclass_params__.frozen for kind in defined)
    assert set(events.__all__) == {kind.__name__ for kind in defined} | {"Event", "Action"}


def test_the_engine_has_a_case_for_every_event() -> None:
    both = classes_matched(engine.step)
    synchronous, asynchronous = classes_matched(engine._step), classes_matched(buffered.step)
    assert synchronous == asynchronous
    assert both | synchronous == {kind.__name__ for kind in EVENTS}


def test_the_conductor_follows_every_action_and_records_all_but_the_last() -> None:
    names = {kind.__name__ for kind in ACTIONS}
    assert classes_matched(conductor.Conductor._follow, job_actions.follow_job_action) == names
    recorded = classes_matched(conductor.Conductor._record, job_actions.record_job_action)
    assert recorded == names - {"Finish"}
