"""Events and actions are complete: the agent takes every event, the service carries out every action."""

from __future__ import annotations

import ast
import inspect
from dataclasses import is_dataclass
from textwrap import dedent
from typing import get_args

import pytest

from edge_agent.protocol import events
from edge_agent.protocol.agent import Agent
from edge_agent.service import Service

pytestmark = pytest.mark.light
EVENTS, ACTIONS = (get_args(union) for union in (events.Event, events.Action))


def classes_matched(*functions: object) -> set[str]:
    """The classes in the cases of some functions' match statements."""
    trees = [ast.parse(dedent(inspect.getsource(f))) for f in functions]
    return {node.cls.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.MatchClass)}


def test_every_class_is_an_event_or_an_action_and_frozen() -> None:
    defined = {value for value in vars(events).values() if inspect.isclass(value) and is_dataclass(value)}
    assert defined == {*EVENTS, *ACTIONS, events.Spooled}
    assert all(kind.__dataclass_params__.frozen for kind in defined)
    assert not {*EVENTS} & {*ACTIONS}


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_the_agent_takes_every_event_in_its_first_moment(kind: type) -> None:
    values = {"int": 1, "float": 1.0, "str": "a" * 64, "bool": False}
    fields = {name: values.get(field.type) for name, field in kind.__dataclass_fields__.items()}
    if kind is events.Answered:
        fields["ack"] = events.Ack.__args__[0](transfer="t", round=1)
    for action in Agent("cnn:w1", device="pi-1").handle(kind(**fields)):
        assert isinstance(action, ACTIONS)


def test_the_service_carries_out_every_action() -> None:
    assert classes_matched(Service._do) == {kind.__name__ for kind in ACTIONS}
