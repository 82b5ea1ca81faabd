"""The training child from its start to what it leaves, with a scripted child and a scripted store."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edge_agent.child.supervisor import Ended
from edge_agent.config import AgentConfig, read_agent_config
from edge_agent.protocol.events import Spooled, StartTraining, TrainingDone, TrainingFailed
from edge_agent.trainings import Trainings
from tests.edge_agent.scripted import DIGEST, make_job, make_offer, write_device

SPOOLED = Spooled(key="k", round=1, transfer="t", count=3)


class Store:
    def __init__(self) -> None:
        self.update: Spooled | None = None
        self.taken: list[str] = []
        self.models = SimpleNamespace(path=lambda digest: Path(digest))

    def spooled(self, key: str) -> Spooled | None:
        return self.update

    def take_job(self, key: str) -> None:
        self.taken.append(f"job {key}")

    def take_offer(self, key: str, digest: str) -> None:
        self.taken.append(f"offer {digest[:4]}")


class Child:
    pid = 7

    def __init__(self, request: Any, **how: Any) -> None:
        self.request, self.how, self.killed = request, how, False
        self.warnings, self.computes_on, self.progress = ["hot"], "", (30, 120)
        self.ended: Ended | None = None

    def poll(self, now: float) -> Ended | None:
        return self.ended

    def kill(self) -> None:
        self.killed = True


class Bench:
    def __init__(self, config: AgentConfig) -> None:
        self.config, self.store, self.children = config, Store(), []
        self.trainings = Trainings(
            self.store,  # type: ignore[arg-type]
            aggregator="ab" * 32,
            make_child=self._make,  # type: ignore[arg-type]
            wake=lambda: None,
        )
        self.cannot: OSError | None = None

    def _make(self, request: Any, **how: Any) -> Child:
        if self.cannot is not None:
            raise self.cannot
        self.children.append(Child(request, **how))
        return self.children[-1]

    def start(self, instruction: Any) -> object:
        return self.trainings.start(StartTraining("k", instruction, 2, None), self.config)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(read_agent_config(write_device(tmp_path / "pi", 1)))


def test_a_child_is_started_watched_and_its_update_put_in_place(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "edgestill.agent")
    trainings, job = bench.trainings, make_job(DIGEST)
    assert trainings.poll(0.0) is None
    assert bench.start(job) is None
    (child,) = bench.children
    assert (child.request.base, child.how["attempt"]) == (DIGEST, 2)
    assert child.how["max_seconds"] == bench.config.train.max_seconds
    assert trainings.busy
    assert trainings.poll(1.0) is None
    assert "hot" in caplog.text
    child.ended = Ended("k", facts={"train_loss": 0.5, "memory_mb": 81.6})
    bench.store.update = SPOOLED
    assert trainings.poll(2.0) == (child.ended, job)
    assert not trainings.busy
    assert trainings.put_in_place(child.ended, job) == TrainingDone("k", SPOOLED)
    assert "trained, loss 0.5000, peak memory 82 MB" in caplog.text
    assert bench.store.taken == ["job k"]


def test_the_device_that_a_child_trains_on_is_logged_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "edgestill.agent")
    for _ in range(2):
        bench.start(make_job(DIGEST))
        bench.children[-1].computes_on = "cuda:0 (Orin)"
        bench.trainings.poll(1.0)
        bench.trainings.kill()
    assert bench.trainings.computes_on == "cuda:0 (Orin)"
    assert caplog.text.count("trains on cuda:0 (Orin)") == 1


def test_an_update_of_a_killed_agents_child_is_not_trained_again(bench: Bench) -> None:
    bench.store.update = SPOOLED
    assert bench.start(make_job(DIGEST)) == TrainingDone("k", SPOOLED)
    assert bench.children == []


def test_a_child_that_cannot_start_or_leaves_nothing_is_tried_again(bench: Bench) -> None:
    bench.cannot = OSError(11, "Resource temporarily unavailable")
    failed = bench.start(make_job(DIGEST))
    assert isinstance(failed, TrainingFailed)
    assert failed.again
    assert not bench.trainings.busy
    left = bench.trainings.put_in_place(Ended("k", facts={"train_loss": 0.5}), make_job(DIGEST))
    assert left == TrainingFailed("k", "the training child left no update", again=True)


def test_stopping_kills_and_keeps_what_was_faster(bench: Bench) -> None:
    bench.start(make_job(DIGEST))
    assert bench.trainings.stop("k") is None
    assert bench.children[0].killed
    bench.start(make_job(DIGEST))
    bench.store.update = SPOOLED
    assert bench.trainings.stop("k") == TrainingDone("k", SPOOLED)
    assert bench.store.taken == ["job k"]


def test_an_offered_model_is_taken_or_refused_as_worse(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    offer = make_offer(DIGEST, 4)
    worse = {"refused": 1.0, "accuracy": 0.25, "accuracy_before": 0.5}
    assert bench.trainings.put_in_place(Ended("k", facts=worse), offer) == TrainingDone("k")
    assert "round 4: the new model is worse here (0.250 < 0.500): the board keeps its own" in caplog.text
    assert bench.store.taken == [f"offer {DIGEST[:4]}"]
