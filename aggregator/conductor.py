"""Carries out what the round engine decides: journal, worker, and what the fleet is told."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from aggregator.artifacts import published_tensors
from aggregator.blobs import Blobs
from aggregator.config import FleetConfig
from aggregator.events import (
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
    ModelsReady,
    Open,
    Pause,
    Revoked,
    RolledBack,
    Withdraw,
)
from aggregator.intake import Asked
from aggregator.journal import Journal
from aggregator.overrides import read_recipe
from aggregator.pace import hyper_of_round
from aggregator.process import WorkerProcess
from aggregator.publisher import Instruction, Publisher
from aggregator.restore import accuracies, restore, rules_of
from aggregator.rounds import Phase, Verdict, judge, step
from aggregator.rows import Invitation, ModelRow, RoundRow
from aggregator.tensor_checks import Published
from wire.crashpoints import reach
from wire.errors import EdgestillError, RoundError
from wire.messages import Job, Offer

__all__ = ["Conductor"]

log = logging.getLogger("edgestill.aggregator")
#: Events that may change what the fleet is told, though the engine wants nothing done.
TOLD = (AboutHeard, Revoked, Allowed, RolledBack, ModelsReady)
TRIES = 3  # of the worker, before the fleet is paused


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
    ) -> None:
        self.config, self.journal, self.blobs, self.worker = config, journal, blobs, worker
        self._publisher, self._clock = publisher, clock
        self.key = publisher.key
        self.state = restore(journal, rules_of(config), config.devices, clock())
        self._published: dict[str, tuple[str, Published]] = {}  # by prototype: the artifact last asked for
        self._invitations: tuple[int, dict[str, Invitation]] = (0, {})
        self._made: list[dict[str, Any]] = []  # by the worker, to be committed
        self._report: dict[str, Any] = {}  # of the round that it fused
        self._failures = 0
        self._before: set[str] = set()  # artifacts of the round before
        self._points: list[str] = []  # crash points to pass when all is said
        self.changed = True  # whether the fleet must be told something

    # the engine

    def start(self) -> None:
        """Go on where the journal stands."""
        self.blobs.collect(self.journal.named_blobs(self.config.keep_rounds))
        if self.state.phase is Phase.STARTING:
            missing = [p for p in self.config.prototypes if p not in self.journal.current()]
            log.info("building the first models of %s", " ".join(missing))
            self.worker.ask({"task": "start", "prototypes": missing})
        else:
            log.info("round %d, %s; %d done", self.state.round, self.state.phase.value, self.state.completed)
            self._resume_fusing()
        reach("aggregator-started")

    def feed(self, event: Event) -> None:
        """Let the engine know, and do what it wants."""
        self.state, actions = step(self.state, event)
        if actions or isinstance(event, TOLD):
            self.changed = True
        for action in actions:
            self._do(action)

    def worker_answered(self) -> None:
        """Take the worker's answer, if there is one."""
        answer = self.worker.take()
        if answer is None:
            return
        if "error" in answer:
            self._worker_failed(answer["error"])
            return
        self._failures = 0
        self._made, self._report = answer["models"], answer.get("report", {})
        if answer["task"] == "start":
            with self.journal.transaction():
                self._add_models("start")
            self.feed(ModelsReady())
            self._resume_fusing()
        elif self.state.phase is Phase.FUSING and answer["round"] == self.state.round:
            reach("aggregator-fused")
            new = {m["prototype"]: m["metrics"]["accuracy"] for m in self._made if "accuracy" in m["metrics"]}
            self.feed(Fused(self.state.round, {**accuracies(self.journal), **new}))

    def _resume_fusing(self) -> None:
        if self.state.phase is Phase.FUSING and not self.worker.busy:
            self.worker.ask({"task": "fuse", "round": self.state.round})

    def _worker_failed(self, error: str) -> None:
        self._failures += 1
        if self._failures < TRIES and self.state.phase is Phase.FUSING:
            log.error("round %d cannot be fused: %s; trying again", self.state.round, error)
            self._resume_fusing()
            return
        if self.state.phase is Phase.STARTING:
            raise RoundError(f"the first models cannot be built: {error}")
        log.error(
            "round %d cannot be fused: %s; paused: mend it, then `edgestill aggregator resume`", self.state.round, error
        )
        self._failures = 0
        with self.journal.transaction():
            self.journal.put("hold", "paused")
        self.feed(Pause())

    def resumed(self) -> None:
        """The operator has resumed: a round that could not be fused is tried again."""
        self._resume_fusing()

    def _do(self, action: Action) -> None:
        match action:
            case Open():
                self._open(action)
            case Extend(number, deadline):
                log.warning("round %d: below the quorum at the deadline; extended once", number)
                with self.journal.transaction():
                    self.journal.set_round(number, deadline=deadline, extended=1)
            case Abandon(number, reason):
                log.warning("round %d abandoned: %s", number, reason)
                with self.journal.transaction():
                    self.journal.set_round(number, phase="abandoned", closed=self._clock(), reason=reason)
            case Withdraw(number, device):
                with self.journal.transaction():
                    self.journal.withdraw(number, device)
            case Fuse(number):
                reach("aggregator-all-answered")
                log.info("round %d: fusing %d of %d updates", number, len(self.state.answered), len(self.state.invited))
                with self.journal.transaction():
                    self.journal.set_round(number, phase="fusing")
                    if self.config.round.late == "keep":
                        self.journal.note_late(number)
                self.worker.ask({"task": "fuse", "round": number})
            case Close(number):
                self._close(number)
            case Finish(reason):
                log.info("no further round: %s", reason)

    def _open(self, action: Open) -> None:
        models = self.journal.current()
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
        with self.journal.transaction():
            self.journal.open_round(row, asked)
        reach("aggregator-round-opened")
        log.info("round %d open: %d devices asked", action.round, len(asked))
        self._points.append("aggregator-jobs-published")
        self.worker.warm()

    def _close(self, number: int) -> None:
        self._before = set(self._artifacts())
        with self.journal.transaction():
            self._add_models("fused")
            self.journal.add_report(number, self._report)
            self.journal.set_round(number, phase="closed", closed=self._clock())
        reach("aggregator-round-committed")
        self._points.append("aggregator-published")
        scores = [f"{m['prototype']} {m['metrics']['accuracy']:.3f}" for m in self._made if "accuracy" in m["metrics"]]
        log.info("round %d closed%s", number, f": accuracy {', '.join(scores)}" if scores else "")
        for device, facts in self._report.get("devices", {}).items():
            if facts["screened"]:
                log.warning("round %d: the update of %r was left out: %s", number, device, facts["screened"])
        self.blobs.collect(self.journal.named_blobs(self.config.keep_rounds))

    def _add_models(self, origin: str) -> None:
        known = self.journal.model_sizes()
        for made in self._made:
            if made["digest"] in known:
                continue
            self.journal.add_model(
                ModelRow(
                    digest=made["digest"],
                    prototype=made["prototype"],
                    round=made["round"],
                    origin=origin,
                    recipe=made["recipe"],
                    parents=tuple(made["parents"]),
                    metrics=made["metrics"],
                    size=self.blobs.path(made["digest"]).stat().st_size,
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
            return Verdict(f"already kept for round {number}")
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
            except EdgestillError as error:  # our own blob: no device is to blame
                raise OSError(f"model {digest[:12]}… is damaged in blobs: {error}") from None
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
        offers = {name: Offer(round=model.round, prototype=name, model=model.digest) for name, model in current.items()}
        jobs = self._jobs()
        wanted: dict[str, Instruction] = {}
        for device, seen in sorted(self.state.devices.items()):
            if seen.revoked:
                wanted[device] = None
            elif device in jobs:
                wanted[device] = jobs[device]
            elif seen.prototype in offers:
                wanted[device] = offers[seen.prototype]
        return wanted

    def _jobs(self) -> dict[str, Job]:
        row = self.journal.last_round()
        if not self._in_round or row is None:
            return {}
        generator = self._generator(row)
        made: dict[tuple[str, str], Job] = {}
        jobs = {}
        for i in self.journal.invitations(row.number):
            if (i.prototype, i.model) not in made:
                made[i.prototype, i.model] = Job(
                    round=row.number,
                    deadline=self.state.deadline,
                    prototype=i.prototype,
                    update=row.update,  # type: ignore[arg-type]
                    hyper=row.hyper,
                    model=i.model,
                    bits=row.bits,  # type: ignore[arg-type]
                    generator=generator,
                )
            jobs[i.device] = made[i.prototype, i.model]
        return jobs

    def _generator(self, row: RoundRow) -> str | None:
        """What devices learn from in this round beside their models: made at the end of one before it."""
        name = read_recipe(row.recipe).knowledge
        made = None if name is None else self.journal.current().get(name)
        return None if made is None else made.digest
