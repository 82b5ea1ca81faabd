"""Who gets which device, and what happens when a worker is lost: with workers that only pretend to train."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from core.errors import RoundError
from fleet.engines.base import Scoring, Task
from fleet.engines.channel import Frame
from fleet.engines.pooled import AHEAD, SMALL, Pooled, Worker
from fleet.simulation.device import Answer
from fleet.simulation.round_message import Artifact, News
from models.compute_device import CPU

BENCH: Any = SimpleNamespace(devices=[SimpleNamespace(id=f"sim-{n}") for n in range(20)], batches=5, device=CPU)
NEWS = News(round_number=1, published={"mlp:fp32": Artifact(b"model")})


class Pretending:
    """A link to a worker that answers at once, dies over `fatal` devices, and writes down what it was told."""

    def __init__(self, fatal: Callable[[int], bool] = lambda _: False) -> None:
        self.told: list[tuple[str, Mapping[str, Any], Sequence[bytes]]] = []
        self.answers: deque[Frame] = deque()
        self.most_ahead = 0
        self._fatal, self._dead = fatal, False

    def send(self, kind: str, facts: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> None:
        if self._dead:
            raise BrokenPipeError
        self.told.append((kind, facts, blobs))
        if kind == "train":
            for device in facts["devices"]:
                told = {"kept": [], "reason": "", "train_s": 0.0, "encode_s": 0.0}
                fatal = self._fatal(device)
                self.answers.append(Frame("fatal" if fatal else "answer", told, [f"device {device}".encode()]))
        elif kind == "score":
            tally = [(n, 1.0, 1) for n in range(facts["first"], facts["last"])]
            self.answers.append(Frame("tally", {"tally": tally}, []))
        elif kind == "call":
            self.answers.append(Frame("called", {"answer": dict(facts["request"])}, []))
        self.most_ahead = max(self.most_ahead, len(self.answers))

    def receive(self) -> Frame:
        if not self.answers or self.answers[0].kind == "fatal":
            self._dead = True
            raise EOFError
        return self.answers.popleft()


class Pool(Pooled):
    """Workers that pretend; the n-th one is made by `make`."""

    def __init__(self, workers: int, make: Callable[[int], Pretending] = lambda _: Pretending()) -> None:
        super().__init__(BENCH, workers)
        self.links: list[Pretending] = []
        self.ended: list[int] = []
        self._make = make

    def _start(self) -> Worker:
        number = len(self.links)
        self.links.append(self._make(number))
        return Worker(number, self.links[-1], lambda: self.ended.append(number))


def tasks(*devices: int) -> list[list[Task]]:
    return [[Task(device, {})] for device in devices]


def read(task: Task, answer: Answer) -> tuple[int, bytes]:
    assert answer.message is not None
    return task.device, bytes(answer.message)


def trained(pool: Pool, batches: Sequence[Sequence[Task]]) -> dict[int, bytes]:
    pool.open(NEWS)
    results = list(pool.train(batches, read))
    assert len(results) == len(dict(results))
    return dict(results)


def test_every_device_is_trained_once_and_its_answer_is_its_own() -> None:
    pool = Pool(3)
    assert trained(pool, tasks(*range(12))) == {n: f"device {n}".encode() for n in range(12)}
    assert max(link.most_ahead for link in pool.links) <= AHEAD


def test_devices_of_a_batch_go_to_one_worker_together() -> None:
    pool = Pool(2)
    trained(pool, [[Task(0, {}), Task(1, {}), Task(2, {})], [Task(3, {})]])
    sent = [facts["devices"] for link in pool.links for kind, facts, _ in link.told if kind == "train"]
    assert sorted(sent) == [[0, 1, 2], [3]]


def test_much_that_was_kept_is_not_sent_to_a_worker_that_is_busy() -> None:
    pool = Pool(1)
    trained(pool, [[Task(n, {"extractor": bytes(SMALL + 1)})] for n in range(4)])
    assert pool.links[0].most_ahead == 1


def test_what_a_lost_worker_had_is_trained_by_the_next_which_hears_of_the_round_first() -> None:
    pool = Pool(1, lambda number: Pretending(lambda device: number == 0 and device == 2))
    assert sorted(trained(pool, tasks(0, 1, 2, 3))) == [0, 1, 2, 3]
    assert pool.ended == [0]
    assert [kind for kind, _, _ in pool.links[1].told[:2]] == ["hold", "round"]


def test_a_device_over_which_three_workers_die_is_named() -> None:
    pool = Pool(1, lambda _: Pretending(lambda device: device == 3))
    with pytest.raises(RoundError, match=r"3 worker processes died while training sim-3; is there enough memory\?"):
        trained(pool, tasks(1, 3))
    assert pool.ended == [0, 1, 2]


def test_a_worker_is_sent_only_the_artifacts_that_it_has_not() -> None:
    pool = Pool(1)
    pool.open(NEWS)
    pool.open(News(round_number=2, published={"mlp:fp32": Artifact(b"model"), "cnn:w1": Artifact(b"other")}))
    holds = [(facts, list(blobs)) for kind, facts, blobs in pool.links[0].told if kind == "hold"]
    assert holds[0][1] == [b"model"]
    assert holds[1][1] == [b"other"]
    assert len(holds[1][0]["keep"]) == 2


def test_shares_of_the_test_set_come_back_in_its_order() -> None:
    state = Artifact(b"state")
    tallies = Pool(3).score([Scoring("mlp:fp32", state, False), Scoring("mlp:fp32", state, True)])
    assert tallies == [[(n, 1.0, 1) for n in range(5)]] * 2


def test_requests_are_answered_in_their_order_and_an_error_ends_the_workers() -> None:
    pool = Pool(2)
    assert pool.ask_all("m:f", [{"n": n} for n in range(7)]) == [{"n": n} for n in range(7)]

    class Failing(Pretending):
        def receive(self) -> Frame:
            return Frame("error", {"text": "student 2 is lazy"}, [])

    failing = Pool(2, lambda _: Failing())
    with pytest.raises(RoundError, match="student 2 is lazy"):
        failing.ask_all("m:f", [{"n": 0}, {"n": 1}])
    assert sorted(failing.ended) == [0, 1]
