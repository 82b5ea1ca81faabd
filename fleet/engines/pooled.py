"""Base of engines with several workers: assigns devices to workers and replaces lost workers.

Per worker, a thread sends tasks, one ahead of the answer that it waits for, and reads the updates. A lost worker is
replaced and its unanswered tasks are trained again, with the same seeds and identical results.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

import msgspec
import torch

from core.errors import RoundError
from fleet.engines.base import Scoring, Task
from fleet.engines.channel import Frame
from fleet.engines.work import Bench, Tally
from fleet.simulation.device import Answer
from fleet.simulation.round_message import Artifact, News
from models.compute_device import devices_of

__all__ = ["Link", "Pooled", "Worker"]

AHEAD = 2  # tasks sent to a worker: one in training, one queued
SMALL = 2**18  # bytes that may be sent to a busy worker: more could deadlock with its answer
STRIKES = 3  # workers that may die while training one device
T = TypeVar("T")


class Link(Protocol):
    """Connection to a worker. Both methods raise `EOFError` or `OSError` if the worker is lost."""

    def send(self, kind: str, facts: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> None:
        """Send a request; a worker processes requests in order."""

    def receive(self) -> Frame:
        """Its next answer."""


@dataclass(slots=True)
class Worker:
    """One worker, and the function that stops it."""

    name: int  # of its process
    channel: Link
    end: Callable[[], None]
    holds: set[str] = field(default_factory=set)  # digests

    def receive(self, kind: str) -> Frame:
        frame = self.channel.receive()
        if frame.kind == "error":
            raise RoundError(frame.facts["text"])
        assert frame.kind == kind, f"asked for {kind}, got {frame.kind}"
        return frame

    def hold(self, artifacts: Sequence[Artifact]) -> None:
        """Send the artifacts that the worker lacks; it drops all others."""
        wanted = {artifact.digest: artifact for artifact in artifacts}
        new = [digest for digest in wanted if digest not in self.holds]
        self.channel.send("hold", {"keep": list(wanted), "new": new}, [wanted[digest].data for digest in new])
        self.holds = set(wanted)


class Pooled(ABC):
    """See `fleet.engines.base.Engine`; subclasses implement `_start`."""

    def __init__(self, bench: Bench, workers: int) -> None:
        self._bench = bench
        self._count = workers
        self._workers: list[Worker] = []
        self._lock = threading.Lock()  # guards the list and forks: no worker may inherit a half-opened pipe
        self._news: News | None = None

    @abstractmethod
    def _start(self) -> Worker:
        """A new worker."""

    def _devices(self) -> list[torch.device]:
        """The compute devices over which the workers are spread; none if each has its own already."""
        device = self._bench.device
        return [] if device.type == "cpu" else devices_of(device)

    def _begin(self, at: int) -> Worker:
        """A new worker in place `at`, on its compute device."""
        worker, devices = self._start(), self._devices()
        if devices:
            with suppress(OSError):  # detected by the next receive
                worker.channel.send("compute", {"device": str(devices[at % len(devices)])})
        return worker

    def open(self, news: News) -> None:
        """Send the round's message to every worker; the first round starts them."""
        self._news = news
        self._ensure()
        for at in range(len(self._workers)):
            self._with(at, lambda worker: _tell(worker, news))

    def train(self, batches: Sequence[Sequence[Task]], read: Callable[[Task, Answer], T]) -> Iterator[T]:
        """Results in order of completion; `read` is called in one thread per worker."""
        rest, strikes = deque(batches), Counter[int]()
        done: SimpleQueue[T | BaseException] = SimpleQueue()

        def drive(at: int) -> None:
            try:
                while rest:
                    self._drive(at, rest, strikes, lambda task, answer: done.put(read(task, answer)))
            except BaseException as error:
                done.put(error)

        threads = [threading.Thread(target=drive, args=(at,), daemon=True) for at in range(len(self._workers))]
        for thread in threads:
            thread.start()
        finished = False
        try:
            for _ in range(sum(map(len, batches))):
                result = done.get()
                if isinstance(result, BaseException):
                    raise result
                yield result
            finished = True
        finally:
            if not finished:  # an error or Ctrl-C: do not wait for running tasks
                rest.clear()
                self.close()
            for thread in threads:
                thread.join()

    def _drive(
        self, at: int, rest: deque[Sequence[Task]], strikes: Counter[int], put: Callable[[Task, Answer], None]
    ) -> None:
        """Keep worker `at` busy until no batch is left."""
        worker, given = self._workers[at], deque[deque[Task]]()  # batches in flight; the first may be partly answered

        def give() -> None:
            while len(given) < AHEAD:
                if given and len(rest) < self._count:  # the last batches go to the worker that is free first
                    return
                try:
                    tasks = rest.popleft()
                except IndexError:
                    return
                kept = [blob for task in tasks for blob in task.kept.values()]
                if given and sum(map(len, kept)) > SMALL:
                    rest.appendleft(tasks)
                    return
                given.append(deque(tasks))
                facts = {"devices": [task.device for task in tasks], "kept": [list(task.kept) for task in tasks]}
                worker.channel.send("train", facts, kept)

        try:
            give()
            while given:
                frame = worker.receive("answer")
                task = given[0].popleft()
                if not given[0]:
                    given.popleft()
                    with suppress(OSError):  # it died after its answer; the next receive detects that
                        give()
                put(task, _answer(frame))  # copies the blobs that it keeps
                frame.release()
        except (EOFError, OSError) as error:
            rest.extendleft(reversed(given))
            if given:
                self._strike(self._bench.devices[given[0][0].device].id, given[0][0].device, strikes, error)
            self._replace(at)

    def _strike(self, name: str, device: int, strikes: Counter[int], error: BaseException) -> None:
        strikes[device] += 1
        if strikes[device] >= STRIKES:
            raise RoundError(
                f"{STRIKES} worker processes died while training {name}; is there enough memory?"
            ) from error

    def score(self, scorings: Sequence[Scoring]) -> list[Tally]:
        """Every worker scores its share of the batches of every model."""
        self._ensure()
        count, batches = len(self._workers), self._bench.batches
        edges = [batches * n // count for n in range(count + 1)]
        states = [scoring.state for scoring in scorings]

        def asking(at: int) -> Callable[[Worker], None]:
            def ask(worker: Worker) -> None:
                worker.hold(states)
                for scoring in scorings:
                    share = {"first": edges[at], "last": edges[at + 1]}
                    facts = {"prototype": scoring.prototype, "quantized": scoring.quantized}
                    worker.channel.send("score", {**facts, **share, "state": scoring.state.digest})

            return ask

        for at in range(count):
            self._with(at, asking(at))
        parts = [self._with(at, self._tallies(len(scorings)), again=asking(at)) for at in range(count)]
        return [[pair for part in parts for pair in part[n]] for n in range(len(scorings))]

    @staticmethod
    def _tallies(count: int) -> Callable[[Worker], list[Tally]]:
        return lambda worker: [[tuple(p) for p in worker.receive("tally").facts["tally"]] for _ in range(count)]

    @property
    def workers(self) -> int:
        """Processes."""
        return self._count

    def ask_all(self, call: str, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Each request goes to the next free worker."""
        self._ensure()
        rest = deque(enumerate(requests))
        answers: dict[int, dict[str, Any]] = {}

        def work(at: int) -> None:
            while True:
                try:
                    index, request = rest.popleft()
                except IndexError:
                    return
                answers[index] = self._with(at, partial(self._ask, call=call, request=request))

        with ThreadPoolExecutor(self._count) as threads:
            try:
                for done in [threads.submit(work, at) for at in range(self._count)]:
                    done.result()
            except BaseException:  # do not wait for the others
                rest.clear()
                self.close()
                raise
        return [answers[index] for index in range(len(requests))]

    def _ask(self, worker: Worker, call: str, request: Mapping[str, Any]) -> dict[str, Any]:
        worker.channel.send("call", {"call": call, "request": request})
        return dict(worker.receive("called").facts["answer"])

    def close(self) -> None:
        """Stop all workers."""
        with self._lock:
            workers, self._workers = self._workers, []
            for worker in workers:
                worker.end()

    def _with(self, at: int, do: Callable[[Worker], T], again: Callable[[Worker], None] = lambda _: None) -> T:
        """Call `do` with worker `at`; if it died, call `again` and then `do` with its replacement."""
        for _ in range(STRIKES):
            try:
                return do(self._workers[at])
            except (EOFError, OSError):
                self._replace(at)
                with suppress(OSError):
                    again(self._workers[at])
        raise RoundError(f"{STRIKES} worker processes died one after another; is there enough memory?")

    def _ensure(self) -> None:
        while len(self._workers) < self._count:
            self._workers.append(self._begin(len(self._workers)))

    def _replace(self, at: int) -> None:
        with self._lock:
            if at >= len(self._workers):  # `close` was called
                raise RoundError("the simulation was stopped")
            self._workers[at].end()
            self._workers[at] = self._begin(at)
        if self._news is not None:
            with suppress(OSError):  # detected by the next receive
                _tell(self._workers[at], self._news)


def _tell(worker: Worker, news: News) -> None:
    side_artifact: dict[str, Any] | None = None
    artifacts = list(news.published.values())
    if news.side_artifact is not None:
        artifacts.append(news.side_artifact.body)
        side_artifact = {
            "header": msgspec.to_builtins(news.side_artifact.header),
            "digest": news.side_artifact.body.digest,
        }
    worker.hold(artifacts)
    published = {name: artifact.digest for name, artifact in news.published.items()}
    facts = {
        "round_number": news.round_number,
        "published": published,
        "update": news.update,
        "extra": dict(news.extra),
    }
    worker.channel.send("round", {**facts, "side_artifact": side_artifact})


def _answer(frame: Frame) -> Answer:
    message, *kept = frame.blobs
    return Answer(
        message=message if len(message) else None,  # type: ignore[arg-type]  # a buffer, not copied
        reason=frame.facts["reason"],
        kept={name: bytes(blob) for name, blob in zip(frame.facts["kept"], kept, strict=True)},
        train_s=frame.facts["train_s"],
        encode_s=frame.facts["encode_s"],
    )
