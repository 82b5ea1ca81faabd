"""Processes that stay: who answers, who dies, what is said of it."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aggregator.fusion.process_pool import Pool, call, shared_pool
from core.errors import ConfigError, RoundError

HERE = "tests.aggregator.fusion.test_process_pool"


def double(request: dict[str, Any]) -> dict[str, Any]:
    print("to stderr")  # noqa: T201 - what a library prints must not be taken for an answer
    time.sleep(request.get("sleep", 0.0))
    return {"twice": 2 * request["number"], "pid": os.getpid()}


def refuse(request: dict[str, Any]) -> dict[str, Any]:
    raise ConfigError(f"no {request['number']}")


def die(request: dict[str, Any]) -> dict[str, Any]:
    os._exit(3)


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(2)
    yield made
    made.close()


def test_answers_come_in_the_order_of_requests_from_processes_that_stay(pool: Pool) -> None:
    requests = [{"number": 1, "sleep": 0.3}, {"number": 2}, {"number": 3}]
    answers = pool.ask_all(f"{HERE}:double", requests)
    assert [answer["twice"] for answer in answers] == [2, 4, 6]
    pids = {answer["pid"] for answer in answers}
    assert os.getpid() not in pids
    assert {answer["pid"] for answer in pool.ask_all(f"{HERE}:double", requests)} <= pids


def test_errors_are_told_and_a_dead_process_is_replaced(pool: Pool) -> None:
    with pytest.raises(RoundError, match="no 5"):
        pool.ask_all(f"{HERE}:refuse", [{"number": 5}])
    with pytest.raises(RoundError, match=r"(ended with exit code 3|was killed by SIGKILL); is there enough memory"):
        pool.ask_all(f"{HERE}:die", [{}])
    answers = pool.ask_all(f"{HERE}:double", [{"number": 1}, {"number": 2}])
    assert [answer["twice"] for answer in answers] == [2, 4]


def test_a_process_ends_with_its_stdin_in_the_middle_of_its_work() -> None:
    pool = Pool(1)
    (pid,) = (answer["pid"] for answer in pool.ask_all(f"{HERE}:double", [{"number": 1}]))
    process = pool._all[0]._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.write(b'{"call": "time:sleep", "request": 60}\n')
    process.stdin.close()
    assert process.wait(120) == 0
    assert not Path(f"/proc/{pid}").exists()


def test_the_shared_pool_is_kept_and_only_grows() -> None:
    assert shared_pool(1) is shared_pool(1)
    grown = shared_pool(3)
    assert len(grown) >= 3
    assert shared_pool(2) is grown


def test_a_function_is_called_by_module_and_name() -> None:
    assert call(f"{HERE}:double", {"number": 2})["twice"] == 4
    with pytest.raises(AttributeError):
        call(f"{HERE}:no_such_function", {})
