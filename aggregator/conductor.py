"""Carries out what the round engine decides: journal, worker, and what the fleet is told.

The journal leads, memory follows: what the actions of an event change is recorded in one transaction, and the engine's
new state is adopted when that is durable. If it cannot be written, nothing has happened: `resync` takes the round from
the journal again, and whatever asked for it asks again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aggregator.config.fleet import FleetConfig
from aggregator.downlink.publisher import Instruction, Publisher
from aggregator.fusion.example_cap import capped_text
from aggregator.intake.checks import Asked
from aggregator.recipes.lr_decay import hyper_of_round
from aggregator.recipes.overrides import read_recipe
from aggregator.rounds.engine import Hold, Phase, Verdict, judge, step
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
    ModelsReady,
    Muted,
    Open,
    Pause,
    Revoked,
    RolledBack,
    SetAside,
    Stop,
    Unfusable,
    Withdraw,
)
from aggregator.rounds.restore import accuracies, restore, rules_of
from aggregator.storage.artifacts import published_tensors
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.rows import Invitation, ModelRow, Refusal, RoundRow
from aggregator.tensor_checks import Published
from aggregator.worker.supervisor import WorkerProcess
from core.crashpoints import reach
from core.errors import EdgestillError, RoundError, StorageError
from core.lost_devices import FATAL, NOTABLE, lost_text, remedy
from wire.messages import Job, Offer
from wire.refusals import RefusalReason

__all__ = ["Conductor"]

log = logging.getLogger("edgestill.aggregator")
#: Events that may change what the fleet is told, though the engine wants nothing done.
TOLD = (AboutHeard, Revoked, Allowed, RolledBack, ModelsReady)
TRIES = 3  # of the worker at a round in which no update is to blame, before the fleet is paused
RETRY_S = 2.0  # after the worker could not write
CAPPED = 5  # devices that the log names


class Conductor:
    """The engine's state and everything that must follow from it."""

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
        self._publisher, self._clock, self._muted = publisher, clock, muted
        self.key = publisher.key
        self.epoch = journal.epoch() or journal.begin_epoch(clock())
        self.state = restore(journal, rules_of(config), config.devices, clock())
        self._published: dict[str, tuple[str, Published]] = {}  # by prototype: the artifact last asked for
        self._invitations: tuple[int, dict[str, Invitation]] = (0, {})
        self._answer: dict[str, Any] | None = None  # of the worker, until what follows from it is durable
        self._failures = 0
        self._gave_up = False  # at fusing the open round, until the operator says something
        self._examined: tuple[int, frozenset[str]] | None = None  # round and updates in which no culprit was found
        self._ask_after = 0.0  # when the worker may be asked again
        self._before: set[str] = set()  # artifacts of the round before
        self._points: list[str] = []  # crash points to pass when all is said
        self.changed = True  # whether the fleet must be told something

    # the engine

    def start(self) -> None:
        """Go on where the journal stands."""
        self._collect()
        if self.state.phase is not Phase.STARTING:
            log.info("round %d, %s; %d done", self.state.round, self.state.phase.value, self.state.completed)
        self._engage_worker()
        reach("aggregator-started")

    def feed(self, event: Event, record: Callable[[], None] | None = None) -> None:
        """Let the engine know, and do what it wants; `record` writes to the journal in the same transaction."""
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

    def resync(self) -> None:
        """Take the round from the journal again, after a write that failed: it may have come further than memory."""
        stored = restore(self.journal, self.state.rules, self.config.devices, self._clock())
        revoked = {device for device, seen in stored.devices.items() if seen.revoked}
        devices = {
            **stored.devices,
            **{name: replace(seen, revoked=name in revoked) for name, seen in self.state.devices.items()},
        }
        self.state = replace(stored, devices=devices)
        self._invitations = (0, {})
        self.changed = True

    def drive_worker(self) -> None:
        """Take the worker's answer, if there is one, and give it what is to be done."""
        if self._answer is None:
            self._answer = self.worker.take()
        if self._answer is not None:
            try:
                self._answered(self._answer)
            except StorageError as error:  # what it has made is gone again
                log.error("%s; the worker makes it again", error)
                self._ask_after = self._clock() + RETRY_S
            self._answer = None
        self._engage_worker()

    def _engage_worker(self) -> None:
        if self.worker.busy or self._answer is not None or self._clock() < self._ask_after:
            return
        if self.state.phase is Phase.STARTING:
            missing = [p for p in self.config.prototypes if p not in self.journal.current()]
            log.info("building the first models of %s", " ".join(missing))
            self.worker.ask({"task": "start", "prototypes": missing})
        elif self.state.phase is Phase.FUSING and not self._gave_up:
            self.worker.ask({"task": "fuse", "round": self.state.round})

    def _answered(self, answer: dict[str, Any]) -> None:
        wanted = self.state.phase is Phase.STARTING or answer.get("round", self.state.round) == self.state.round
        if "error" in answer:
            self._worker_failed(answer["error"], storage=bool(answer.get("storage")))
        elif answer["task"] == "start":
            self.feed(ModelsReady(), lambda: self._add_models(answer["models"], "start"))
        elif not wanted or self.state.phase is not Phase.FUSING:
            log.debug("an answer of the worker that nobody waits for any more: %s", answer["task"])
        elif answer["task"] == "examine":
            self._set_aside(answer["culprits"])
        else:
            reach("aggregator-fused")
            self._close(answer["models"], answer.get("report", {}))

    def _worker_failed(self, error: str, *, storage: bool) -> None:
        number = self.state.round
        if storage:
            log.error("the worker cannot write below %s: %s; make room, it is tried again", self.config.state, error)
            self._ask_after = self._clock() + RETRY_S
        elif self.state.phase is Phase.STARTING:
            raise RoundError(f"the first models cannot be built: {error}")
        elif self.state.phase is not Phase.FUSING:
            log.error("the worker failed: %s", error)
        elif self.state.hold is Hold.STOPPED:
            self.feed(Unfusable(f"it cannot be fused: {error}"))
        elif self._examined != (number, self.state.answered):
            log.error("round %d cannot be fused: %s; each update is tried alone", number, error)
            self._examined = number, self.state.answered
            self.worker.ask({"task": "examine", "round": number})
        else:
            self._try_again(error)

    def _try_again(self, error: str) -> None:
        number = self.state.round
        self._failures += 1
        if self._failures < TRIES:
            log.error("round %d cannot be fused: %s; trying again", number, error)
            return
        log.error(
            "round %d cannot be fused, and no update alone is the cause: %s; paused: fix it, then"
            " `edgestill aggregator resume`, or give the round up with `edgestill round skip`",
            number,
            error,
        )
        self.feed(Pause(), lambda: self.journal.put("hold", "paused"))
        self._failures, self._gave_up = 0, True

    def _set_aside(self, culprits: dict[str, str]) -> None:
        """Take the updates that cannot be fused out of the round, and mute their devices for a while."""
        if not culprits:
            log.warning("round %d: every update can be fused alone; trying again", self.state.round)
        number = self.state.round
        rows = {row.device: row for row in self.journal.updates(number)}
        rows |= {row.device: row for row, _ in self.journal.late_teachers(number)}
        for device, reason in culprits.items():
            refusal = Refusal(
                device=device,
                transfer=rows[device].transfer,
                round=rows[device].round,
                reason=RefusalReason.NOT_FUSABLE.say(detail=reason)[:500],
                time=self._clock(),
                why=RefusalReason.NOT_FUSABLE,
            )
            log.error("round %d: the update of %r is set aside: it %s", number, device, refusal.reason)
            self._exclude(refusal, self._clock() + self.config.limits.mute_s)

    def _exclude(self, refusal: Refusal, until: float) -> None:
        def record() -> None:
            self.journal.add_refusal(refusal)
            self.journal.withdraw(refusal.round, refusal.device, refusal.reason)
            self.journal.note_device(refusal.device, muted_until=until)

        self.feed(SetAside(refusal.device, refusal.reason), record)
        self.feed(Muted(refusal.device, until))
        self._muted(refusal.device, until)

    def gave_up(self, device: str, number: int, reason: str) -> None:
        """A device says that nothing will come of a round: if it is awaited in it, it is no longer."""
        if self.state.phase is not Phase.COLLECTING or number != self.state.round or device not in self.state.awaited:
            return
        asked = len(self.state.invited)
        self.feed(GaveUp(device, number), lambda: self.journal.add_failure(number, device, reason))
        lost = self.journal.failures(number)
        self._log_lost(number, {name: lost[name] for name in lost if name in self.state.gave_up | {device}}, asked)

    def _log_lost(self, number: int, lost: dict[str, str], asked: int) -> None:
        """Once a round when a tenth of those asked is exceeded, and once when half is."""
        crossed = [share for share in (NOTABLE, FATAL) if len(lost) > share * asked >= len(lost) - 1]
        if not crossed:
            return
        hyper = self.config.hyper
        training = {
            "lr": hyper_of_round(hyper, number).lr,
            "batch_size": hyper.batch_size,
            "momentum": hyper.momentum,
            "clip": hyper.extra.get("clip", 0.0),
        }
        help_text = remedy(training, lr="[train] lr", clip="[train] clip =")
        level = logging.ERROR if FATAL in crossed else logging.WARNING
        log.log(level, "round %d: %s; %s", number, lost_text(lost, asked), help_text)

    def operator_said(self, event: Event) -> None:
        """The operator has resumed or stopped: a round that could not be fused is tried again, or given up."""
        if self._gave_up and isinstance(event, Stop):
            self.feed(Unfusable("stopped; it could not be fused"))
        self._gave_up, self._examined, self._failures = False, None, 0

    def _record(self, action: Action) -> None:
        """What an action changes in the journal, inside a transaction."""
        match action:
            case Open():
                self._record_open(action)
            case Extend(number, deadline):
                self.journal.set_round(number, deadline=deadline, extended=1)
            case Abandon(number, reason):
                self.journal.set_round(number, phase="abandoned", closed=self._clock(), reason=reason)
            case Withdraw(number, device, reason):
                self.journal.withdraw(number, device, reason)
            case Fuse(number):
                self.journal.set_round(number, phase="fusing")
                if self.config.round.late == "keep":
                    self.journal.note_late(number)
            case Close(number):
                self.journal.set_round(number, phase="closed", closed=self._clock())

    def _follow(self, action: Action) -> None:
        """What follows once an action is durable."""
        match action:
            case Open(number, invited):
                reach("aggregator-round-opened")
                log.info("round %d open: %d devices asked", number, len(invited))
                self._points.append("aggregator-jobs-published")
                self._begin_round()
            case Extend(number):
                log.warning("round %d: below the quorum at the deadline; extended once", number)
            case Abandon(number, reason):
                log.warning("round %d abandoned: %s", number, reason)
                self._cancel_fusing()
            case Withdraw(number, device, reason):
                log.warning("round %d goes on without %r: %s", number, device, reason)
            case Fuse(number):
                reach("aggregator-all-answered")
                log.info("round %d: fusing %d of %d updates", number, len(self.state.answered), len(self.state.invited))
                self._cancel_fusing()  # of more updates than are left now
                self._engage_worker()
            case Close(number):
                reach("aggregator-round-committed")
                self._points.append("aggregator-published")
                self._collect()
            case Finish(reason):
                log.info("no further round: %s", reason)

    def _begin_round(self) -> None:
        self._gave_up, self._examined, self._failures = False, None, 0
        try:
            self.worker.warm()
        except OSError as error:
            log.warning("the worker process cannot be started yet: %s", error)

    def _cancel_fusing(self) -> None:
        self._gave_up, self._failures = False, 0
        if self.worker.busy and self.state.phase is not Phase.STARTING:
            self.worker.cancel()

    def _collect(self) -> None:
        """Remove blobs that nothing names; what cannot be removed now is removed later."""
        try:
            self.blobs.collect(self.journal.named_blobs(self.config.keep_rounds))
        except OSError as error:
            log.warning("old blobs cannot be removed: %s", error)

    def _record_open(self, action: Open) -> None:
        models = self.journal.current()
        for prototype in sorted(set(action.invited.values())):  # a round whose model is gone could only fail
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
        )
        asked = [Invitation(device=d, prototype=p, model=models[p].digest) for d, p in action.invited.items()]
        self.journal.open_round(row, asked)

    def _close(self, made: list[dict[str, Any]], report: dict[str, Any]) -> None:
        """The worker has fused the open round."""
        number, before = self.state.round, set(self._artifacts())
        new = {m["prototype"]: m["metrics"]["accuracy"] for m in made if "accuracy" in m["metrics"]}

        def record() -> None:
            self._add_models(made, "fused")
            self.journal.add_report(number, report)

        self.feed(Fused(number, {**accuracies(self.journal), **new}), record)
        self._before, self._failures = before, 0
        scores = [f"{prototype} {accuracy:.3f}" for prototype, accuracy in new.items()]
        log.info("round %d closed%s", number, f": accuracy {', '.join(scores)}" if scores else "")
        for device, facts in report.get("devices", {}).items():
            if facts["screened"]:
                log.warning("round %d: the update of %r was left out: %s", number, device, facts["screened"])
        self._log_capped(number, report)

    def _log_capped(self, number: int, report: dict[str, Any]) -> None:
        """One line, however many they are: a fleet may have large devices in every round."""
        reports = report.get("devices", {})
        capped = {device: capped_text(facts["capped"]) for device, facts in reports.items() if facts.get("capped")}
        if capped:
            some = "; ".join(f"{device!r} {text}" for device, text in list(capped.items())[:CAPPED])
            more = f"; and {len(capped) - CAPPED} more" if len(capped) > CAPPED else ""
            log.warning("round %d: capped by [fusion] max_examples_ratio: %s%s", number, some, more)

    def _add_models(self, made: list[dict[str, Any]], origin: str) -> None:
        known = self.journal.model_sizes()
        for model in made:
            if model["digest"] in known:
                continue
            self.journal.add_model(
                ModelRow(
                    digest=model["digest"],
                    prototype=model["prototype"],
                    round=model["round"],
                    origin=origin,
                    recipe=model["recipe"],
                    parents=tuple(model["parents"]),
                    metrics=model["metrics"],
                    size=self.blobs.size(model["digest"]),
                    created=self._clock(),
                )
            )

    # what the desk asks

    @property
    def number(self) -> int:
        """The open round, or the last one."""
        return self.state.round

    def now(self) -> float:
        """Seconds since 1970."""
        return self._clock()

    def judge(self, device: str, number: int) -> Verdict:
        """Whether an update of that round can be taken."""
        verdict = judge(self.state, device, number)
        if verdict == Verdict(late=True) and self.journal.has_update(device, number):
            return Verdict(RefusalReason.ALREADY_KEPT)
        return verdict

    def asked(self, device: str, number: int) -> Asked | None:
        """What the device was asked in that round."""
        if self._invitations[0] != number:
            self._invitations = number, {i.device: i for i in self.journal.invitations(number)}
        invitation = self._invitations[1].get(device)
        if invitation is None:
            return None
        return Asked(
            prototype=invitation.prototype,
            model=invitation.model,
            classes=self.config.task.classes,
            published=self._published_by(invitation.prototype, invitation.model),
        )

    def _published_by(self, prototype: str, digest: str) -> Published:
        known, published = self._published.get(prototype, ("", None))
        if published is None or known != digest:
            try:
                published = published_tensors(self.blobs.read(digest))
            except StorageError:
                raise
            except EdgestillError as error:  # our own blob: no device is to blame
                raise StorageError(f"model {digest[:12]}… is damaged in blobs: {error}") from None
            self._published[prototype] = digest, published
        return published

    # what the fleet is told

    def say(self) -> None:
        """Tell the fleet what has changed; nothing is lost if nobody hears it."""
        wanted = self._artifacts()
        self._publisher.say(wanted, self._instructions())
        for point in self._points:
            reach(point)
        self._points.clear()
        self.changed = False
        for digest, size in self.journal.retained().items():
            if digest not in wanted and digest not in self._before:
                self._publisher.clear(digest, size)

    def _artifacts(self) -> dict[str, int]:
        """The artifacts that a job or an offer names, and their sizes."""
        wanted = {model.digest: model.size for model in self.journal.current().values()}
        if self._in_round:
            sizes = self.journal.model_sizes()
            wanted |= {i.model: sizes[i.model] for i in self.journal.invitations(self.state.round)}
        return wanted

    @property
    def _in_round(self) -> bool:
        return self.state.phase in (Phase.COLLECTING, Phase.FUSING)

    def _instructions(self) -> dict[str, Instruction]:
        current = self.journal.current()
        jobs = self._jobs()
        wanted: dict[str, Instruction] = {}
        for device, seen in sorted(self.state.devices.items()):
            if seen.revoked:
                wanted[device] = None
            elif device in jobs:
                wanted[device] = jobs[device]
            elif seen.prototype in current:
                wanted[device] = self._offer(device, current[seen.prototype])
        return wanted

    def _offer(self, device: str, model: ModelRow) -> Offer:
        return Offer(
            round=model.round,
            prototype=model.prototype,
            model=model.digest,
            device=device,
            epoch=self.epoch,
            number=model.number,
        )

    def _jobs(self) -> dict[str, Job]:
        row = self.journal.last_round()
        if not self._in_round or row is None:
            return {}
        side_artifact = self._side_artifact(row)
        numbers = self.journal.model_numbers()
        return {
            i.device: Job(
                round=row.number,
                deadline=self.state.deadline,
                prototype=i.prototype,
                update=row.update,  # type: ignore[arg-type]
                hyper=row.hyper,
                model=i.model,
                bits=row.bits,  # type: ignore[arg-type]
                side_artifact=side_artifact,
                device=i.device,
                epoch=self.epoch,
                number=numbers[i.model],
            )
            for i in self.journal.invitations(row.number)
        }

    def _side_artifact(self, row: RoundRow) -> str | None:
        """What devices learn from in this round beside their models: made at the end of one before it."""
        name = read_recipe(row.recipe).side_artifact
        made = None if name is None else self.journal.current().get(name)
        return None if made is None else made.digest
