"""One after another, in this process."""

from __future__ import annotations

import os
from typing import Any

import pytest

from fleet.engines.base import Scoring, Task
from fleet.engines.inline import Inline
from fleet.engines.work import Bench
from tests.fleet.engines.benches import NAME, bench, news, published


@pytest.fixture(scope="module")
def made() -> Bench:
    return bench()


def test_answers_come_in_the_order_of_the_tasks_and_only_when_asked_for(made: Bench) -> None:
    engine = Inline(made)
    engine.open(news(made))
    seen: list[int] = []
    results = engine.train([[Task(1, {})], [Task(0, {})]], lambda task, answer: seen.append(task.device) or task.device)
    assert seen == []
    assert next(results) == 1
    assert seen == [1]
    assert list(results) == [0]


def test_what_a_device_has_kept_reaches_it_and_what_it_keeps_comes_back(made: Bench) -> None:
    engine = Inline(made)
    engine.open(news(made, update="predictor"))
    (kept,) = engine.train([[Task(0, {})]], lambda task, answer: answer.kept)
    assert list(kept) == ["extractor"]
    (first,) = engine.train([[Task(0, kept)]], lambda task, answer: answer.message)
    (anew,) = engine.train([[Task(0, {})]], lambda task, answer: answer.message)
    assert first != anew


def test_every_model_is_scored_on_the_whole_test_set(made: Bench) -> None:
    engine, state = Inline(made), published(made)
    tallies = engine.score([Scoring(NAME, state, quantized) for quantized in (False, True)])
    assert len(tallies) == 2
    assert tallies[0] == tallies[1] == made.score(NAME, state, 0, made.batches, quantized=False)


def where(request: dict[str, Any]) -> dict[str, Any]:
    return {"pid": os.getpid(), "n": request["n"]}


def test_calls_are_answered_here_and_in_order(made: Bench) -> None:
    engine = Inline(made)
    assert engine.workers == 1
    answers = engine.ask_all(f"{__name__}:where", [{"n": 2}, {"n": 1}])
    assert answers == [{"pid": os.getpid(), "n": 2}, {"pid": os.getpid(), "n": 1}]
