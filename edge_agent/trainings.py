"""The training child of an agent: started for a job or an offer, watched, stopped; what it leaves is put in place."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from core.crashpoints import reach
from edge_agent.child.request import make_request
from edge_agent.child.supervisor import Child, Ended
from edge_agent.config import AgentConfig
from edge_agent.protocol.events import StartTraining, TrainingDone, TrainingFailed
from edge_agent.state.store import Store
from wire.messages import Job, Offer

__all__ = ["Trainings"]

log = logging.getLogger("edgestill.agent")


class Trainings:
    """One child at a time. `make_child` starts it; `aggregator` is the aggregator's public key in hex."""

    def __init__(
        self, store: Store, *, aggregator: str, make_child: Callable[..., Child], wake: Callable[[], None]
    ) -> None:
        self._store, self._aggregator, self._make_child, self._wake = store, aggregator, make_child, wake
        self._child: Child | None = None
        self._work: Job | Offer | None = None  # what the child is at
        self.computes_on = ""  # the device that the last child trained on, as it said

    @property
    def busy(self) -> bool:
        """Whether there is a child to watch."""
        return self._child is not None

    @property
    def progress(self) -> tuple[int, int]:
        """Steps that the child has taken, and steps in all; 0 without a child, and while it prepares."""
        return (0, 0) if self._child is None else self._child.progress

    def start(self, action: StartTraining, config: AgentConfig) -> TrainingDone | TrainingFailed | None:
        """Start a child; what came of it already, if there is an update or no child can be started."""
        assert self._child is None
        spooled = self._store.spooled(action.key)
        if spooled is not None:  # left by a child whose agent was killed
            return TrainingDone(action.key, spooled)
        try:
            self._child = self._begin(action, config, time.monotonic())
        except OSError as error:
            return TrainingFailed(action.key, f"the training child cannot start: {error}", again=True)
        self._work = action.instruction
        doing = "training" if isinstance(action.instruction, Job) else "looking at the offered model"
        log.info(
            "round %d: %s in process %d",
            action.instruction.round,
            doing,
            self._child.pid,
            extra={"round": action.instruction.round},
        )
        reach("agent-training-started")
        return None

    def _begin(self, action: StartTraining, config: AgentConfig, now: float) -> Child:
        models, side_artifact = self._store.models, action.instruction.side_artifact
        request = make_request(
            config,
            action,
            model=models.path(action.instruction.model),
            side_artifact=None if side_artifact is None else models.path(side_artifact),
            aggregator=self._aggregator,
            now=now,
        )
        limit = config.train.max_seconds
        return self._make_child(request, max_seconds=limit, now=now, wake=self._wake, attempt=action.attempt)

    def stop(self, key: str) -> TrainingDone | None:
        """Kill the child; what it has left, if it was faster."""
        self.kill()
        spooled = self._store.spooled(key)
        if spooled is None:
            return None
        self._store.take_job(key)
        return TrainingDone(key, spooled)

    def kill(self) -> None:
        """End the child, if there is one."""
        child, self._child, self._work = self._child, None, None
        if child is not None:
            child.kill()

    def poll(self, now: float) -> tuple[Ended, Job | Offer] | None:
        """How the child has ended and what it was at; None while it runs, or if there is none."""
        child = self._child
        if child is None:
            return None
        ended = child.poll(now)
        for text in child.warnings:
            log.warning("%s", text)
        child.warnings.clear()
        if child.computes_on and child.computes_on != self.computes_on:
            self.computes_on = child.computes_on
            log.info("trains on %s", self.computes_on)
        if ended is None:
            return None
        work, self._child, self._work = self._work, None, None
        assert work is not None
        return ended, work

    def put_in_place(self, ended: Ended, work: Job | Offer) -> TrainingDone | TrainingFailed:
        """Take over what a child that ended well has left: the offered model, or an update for the outbox."""
        assert ended.facts is not None
        if "refused" in ended.facts:
            accuracies = f"{ended.facts['accuracy']:.3f} < {ended.facts['accuracy_before']:.3f}"
            log.warning(
                "round %d: the new model is worse here (%s): the board keeps its own",
                work.round,
                accuracies,
                extra={"round": work.round},
            )
        if isinstance(work, Offer):
            self._store.take_offer(ended.key, work.model)
            if "refused" not in ended.facts:
                log.info("round %d: the offered model is the board's now", work.round, extra={"round": work.round})
            return TrainingDone(ended.key)
        reach("agent-update-spooled")
        self._store.take_job(ended.key)
        spooled = self._store.spooled(ended.key)
        if spooled is None:
            return TrainingFailed(ended.key, "the training child left no update", again=True)
        loss, peak = ended.facts["train_loss"], ended.facts.get("memory_mb", 0.0)
        text = "round %d: trained, loss %.4f, peak memory %.0f MB; %d chunks to send"
        log.info(text, work.round, loss, peak, spooled.count)
        return TrainingDone(ended.key, spooled)
