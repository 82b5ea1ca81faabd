"""Executes the actions of the round engine: in the journal, in the worker, and towards the fleet.

    aggregator/fusing.py                    requests to the worker, and the consequences of its answers
    aggregator/intake/open_round.py         the open round, as acceptance sees it
    aggregator/downlink/instructions.py     jobs and offers

The journal leads, memory follows: all changes caused by an event are recorded in one transaction, and the engine's new
state is adopted once it is durable. If the write fails, nothing has happened: `resync` rebuilds the round from the
journal, and the caller retries.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import replace

from aggregator.config.fleet import FleetConfig
from aggregator.config.tables import ModelsConfig
from aggregator.downlink.instructions import instructions, named_artifacts
from aggregator.downlink.publisher import Publisher
from aggregator.fusing import Fusing
from aggregator.intake.open_round import OpenRound
from aggregator.job_actions import follow_job_action, record_job_action
from aggregator.recipes.lr_decay import hyper_of_round
from aggregator.round_log import log_lost, some
from aggregator.rounds.engine import step
from aggregator.rounds.events import (
    Abandon,
    AboutHeard,
    Action,
    Allowed,
    Close,
    Event,
    Extend,
    Finish,
    Fuse,
    Fused,
    GaveUp,
    Missed,
    ModelsReady,
    Open,
    Revoked,
    RolledBack,
    Withdraw,
)
from aggregator.rounds.restore import restore, rules_of, settle_mode
from aggregator.rounds.state import Phase
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.retention import to_prune
from aggregator.storage.rows import Invitation, RoundRow
from aggregator.worker.supervisor import WorkerProcess
from core.crashpoints import reach

__all__ = ["Conductor"]

log = logging.getLogger("edgestill.aggregator")
#: Events that may change published messages although the engine returns no action.
TOLD = (AboutHeard, Revoked, Allowed, RolledBack, ModelsReady)


class Conductor:
    """Holds the engine's state and executes its actions; `muted` is called with devices that are set aside."""

    def __init__(
        self,
        config: FleetConfig,
        *,
        journal: Journal,
        blobs: Blobs,
        worker: WorkerProcess,
        publisher: Publisher,
        clock: Callable[[], float],
        muted: Callable[[str, float], object] = lambda *_: None,
    ) -> None:
        self.config, self.journal, self.blobs, self.worker = config, journal, blobs, worker
        self._publisher, self._clock = publisher, clock
        self.key = publisher.key
        self.epoch = journal.epoch() or journal.begin_epoch(clock())
        if changed := settle_mode(journal, rules_of(config), clock()):
            log.warning("%s", changed)
        self.state = restore(journal, rules_of(config), config.devices, clock())
        self.open_round = OpenRound(
            lambda: self.state, journal=journal, blobs=blobs, classes=config.task.classes, clock=clock
        )
        self.fusing = Fusing(self, config, journal=journal, blobs=blobs, worker=worker, clock=clock, muted=muted)
        self._before: set[str] = set()  # artifacts of the previous round
        self._points: list[str] = []  # crash points to pass after publishing
        self.changed = True  # whether published messages may be out of date

    # the engine

    def start(self) -> None:
        """Resume from the journal."""
        self._collect()
        if self.state.phase is not Phase.STARTING:
            log.info(
                "round %d, %s; %d done",
                self.state.round,
                self.state.phase.value,
                self.state.completed,
                extra={"round": self.state.round},
            )
        self.fusing.engage()
        reach("aggregator-started")

    def feed(self, event: Event, record: Callable[[], None] | None = None) -> None:
        """Step the engine and execute its actions; `record` writes to the journal in the same transaction."""
        state, actions = step(self.state, event)
        if actions or record is not None:
            with self.journal.transaction():
                if record is not None:
                    record()
                for action in actions:
                    self._record(action)
        self.state = state
        if actions or isinstance(event, TOLD):
            self.changed = True
        for action in actions:
            self._follow(action)

    def close(self, accuracies: Mapping[str, float], record: Callable[[], None]) -> None:
        """The open round is fused; `record` writes its results. Its artifacts stay at the broker for one more round."""
        before = set(named_artifacts(self.state, self.journal))
        self.feed(Fused(self.state.round, accuracies), record)
        self._before = before

    def resync(self) -> None:
        """Rebuild the round from the journal after a failed write: the journal may be ahead of memory."""
        stored = restore(self.journal, self.state.rules, self.config.devices, self._clock())
        revoked = {device for device, seen in stored.devices.items() if seen.revoked}
        devices = {
            **stored.devices,
            **{name: replace(seen, revoked=name in revoked) for name, seen in self.state.devices.items()},
        }
        self.state = replace(stored, devices=devices, unheard=self.state.unheard, settled=self.state.settled)
        self.open_round.forget()
        self.changed = True

    def gave_up(self, device: str, number: int, reason: str) -> None:
        """A device reports that it gave up a round, which then no longer waits for it."""
        if not self.state.awaits(device, number):
            return
        asked = len(self.state.working) or len(self.state.invited)
        self.feed(GaveUp(device, number), lambda: self.journal.add_failure(number, device, reason))
        failures = self.journal.failures(number)
        lost = {name: why for name, why in failures.items() if name in self.state.gave_up | {device}}
        log_lost(self.config.hyper, number, lost, asked)

    @property
    def number(self) -> int:
        """Number of the open round, or of the last one."""
        return self.state.round

    def now(self) -> float:
        """Seconds since 1970."""
        return self._clock()

    # actions

    def _record(self, action: Action) -> None:
        """The changes of an action to the journal, inside a transaction."""
        match action:
            case Open():
                self._record_open(action)
            case Extend(number, deadline):
                self.journal.set_round(number, deadline=deadline, extended=1)
            case Abandon(number, reason):
                self.journal.set_round(number, phase="abandoned", closed=self._clock(), reason=reason)
            case Withdraw(number, device, reason):
                self.journal.withdraw(number, device, reason)
            case Fuse(number, take):
                self.journal.set_round(number, phase="fusing")
                if take:
                    self.journal.take(number, take)
                if self.config.round.late == "keep":
                    self.journal.note_late(number)
            case Close(number):
                self.journal.set_round(number, phase="closed", closed=self._clock())
            case Missed(devices):
                for device in devices:
                    self.journal.note_device(device, status="unknown")
            case _:
                record_job_action(action, self.journal, self.blobs, self._clock())

    def _follow(self, action: Action) -> None:
        """The other effects of an action, once it is durable."""
        match action:
            case Open(number, invited):
                reach("aggregator-round-opened")
                if size := self.state.rules.buffer:
                    facts = (number, len(self.state.buffer), size, len(self.state.working))
                    log.info("round %d open: %d of %d updates, %d devices train", *facts, extra={"round": number})
                else:
                    log.info("round %d open: %d devices asked", number, len(invited), extra={"round": number})
                self._points.append("aggregator-jobs-published")
                self.fusing.begin_round()
            case Extend(number):
                log.warning(
                    "round %d: below the quorum at the deadline; extended once", number, extra={"round": number}
                )
            case Abandon(number, reason):
                log.warning("round %d abandoned: %s", number, reason, extra={"round": number})
                self.fusing.cancel()
            case Withdraw(number, device, reason):
                log.warning(
                    "round %d goes on without %r: %s", number, device, reason, extra={"device": device, "round": number}
                )
            case Fuse(number):
                reach("aggregator-all-answered")
                of_all = "" if self.state.rules.buffer else f" of {len(self.state.invited)}"
                answered = len(self.state.answered)
                log.info("round %d: fusing %d%s updates", number, answered, of_all, extra={"round": number})
                self.fusing.cancel()  # it was given more updates than remain
                self.fusing.engage()
            case Close(number):
                reach("aggregator-round-committed")
                self._points.append("aggregator-published")
                self._collect()
            case Missed(devices):
                log.info("%d devices were not heard of since the connection: %s", len(devices), some(devices))
            case Finish(reason):
                log.info("no further round: %s", reason)
            case _:
                follow_job_action(action)

    def _collect(self) -> None:
        """Give up models and records that the policies do not keep, and remove unreferenced blobs, now or later."""
        try:
            if self.config.models.last is not None:
                self.prune(self.config.models)
            self.journal.forget(max(self.config.history_rounds, self.config.keep_rounds + 2))
            self.blobs.collect(self.journal.named_blobs(self.config.keep_rounds))
        except (OSError, sqlite3.Error) as error:
            log.warning("old blobs cannot be removed: %s", error)

    def prune(self, policy: ModelsConfig, record: Callable[[int, int], None] = lambda *_: None) -> None:
        """Mark the models that the policy gives up; `record` writes their number and bytes in the same transaction."""
        journal = self.journal
        models = journal.unpruned()
        kept = journal.pins() | journal.needed_models(self.config.keep_rounds)
        gone = to_prune(models, kept, policy)
        with journal.transaction():
            if gone:
                journal.prune(model.number for model in gone)
            record(len(gone), sum(model.size for model in gone))
        if gone:
            log.info("%d models are no longer kept: numbers %s", len(gone), some([str(m.number) for m in gone]))

    def _record_open(self, action: Open) -> None:
        models = self.journal.current()
        for prototype in sorted(set(action.invited.values())):  # without its model the round could only fail
            self.blobs.check(models[prototype].digest, models[prototype].size)
        config = self.config
        row = RoundRow(
            number=action.round,
            phase="open",
            deadline=action.deadline,
            update=config.update,
            bits=config.round.bits if config.update == "delta" else None,
            hyper=hyper_of_round(config.hyper, action.round),
            recipe=config.recipe,
            opened=self._clock(),
            buffer=self.state.rules.buffer,
            staleness=config.round.staleness if self.state.rules.buffer else 0.0,
        )
        asked = [Invitation(device=d, prototype=p, model=models[p].digest) for d, p in action.invited.items()]
        self.journal.open_round(row, asked)
        if action.later is not None:
            self.journal.set_later(action.round, action.later.deadline, action.later.devices)

    # publishing

    def say(self) -> None:
        """Publish what has changed; a message that does not arrive is published again."""
        wanted = named_artifacts(self.state, self.journal)
        self._publisher.say(wanted, instructions(self.state, self.journal, self.epoch))
        for point in self._points:
            reach(point)
        self._points.clear()
        self.changed = False
        for digest, size in self.journal.retained().items():
            if digest not in wanted and digest not in self._before:
                self._publisher.clear(digest, size)
