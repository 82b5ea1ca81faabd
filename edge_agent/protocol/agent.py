"""The device's side of the protocol, without I/O: events in, actions out. Specified in docs/protocol.md.

Three state machines run concurrently: the link, which is up or down; uploads (`edge_agent/protocol/upload.py`), one per
update in the outbox, which continue independently of instructions; and the work, one piece at a time:

    state      Instructed(new)      Instructed(None)   model at hand   child done      child failed      Tick
    IDLE       FETCHING             IDLE               -               (upload)        -                 -
    FETCHING   FETCHING             IDLE               TRAINING        (upload)        -                 ask again
    TRAINING   stop, FETCHING       stop, IDLE         -               IDLE, upload    WAITING or IDLE   -
    WAITING    FETCHING             IDLE               -               (upload)        -                 TRAINING

A new instruction is a job whose round was neither answered nor spooled nor given up, or an offer of a model that is not
installed yet. A repeated instruction can only extend a job's deadline. One that names another device, or is older than
the last one followed (`edge_agent/protocol/replay.py`), is refused and does not affect the work; an offer older than
the current job is late and ignored. A newer epoch aborts everything: the work stops, uploads are dropped, and its first
instruction is followed like any other. If a child finishes although it was to be stopped, its update is uploaded like
any other of its epoch.

Time arrives only as `Tick`, from a monotonic clock. An event that is invalid in a state is ignored: every message may
arrive twice, late, or never.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from edge_agent.protocol.download import Download
from edge_agent.protocol.events import (
    Action,
    Announce,
    Answered,
    ChunkStored,
    Connected,
    Disconnected,
    Event,
    Fetched,
    FetchFailed,
    Follow,
    Instructed,
    Look,
    Report,
    Resumed,
    Say,
    Settle,
    Spooled,
    StartTraining,
    StopTraining,
    Tick,
    TrainingDone,
    TrainingFailed,
)
from edge_agent.protocol.progress import Progress, progress_of
from edge_agent.protocol.replay import Newest, epoch_of, instruction_key, plain_key
from edge_agent.protocol.upload import Upload
from wire.envelope import MAX_ROUND
from wire.messages import Job, Missing, Offer, Rejected

__all__ = ["Agent", "Phase", "instruction_key", "seconds_left"]

ANNOUNCE_S, MAX_ANNOUNCE_S = 30.0, 600.0  # repeated until an instruction arrives
RETRY_S = (2.0, 10.0)  # before the second and the third attempt; there is no fourth
MAX_DEADLINE_S = 7 * 24 * 3600.0
MAX_REFUSED = 1000  # refusals that are remembered; a broker may replay any number


class Phase(enum.Enum):
    """The state of the work."""

    IDLE = "idle"
    FETCHING = "fetching"
    TRAINING = "training"
    WAITING = "waiting"


@dataclass(slots=True)
class _Work:
    key: str
    instruction: Job | Offer
    deadline: float | None  # on the monotonic clock
    downloads: dict[str, Download] = field(default_factory=dict)  # artifacts not yet cached
    attempt: int = 0


class Agent:
    """One device. The other arguments are its state on disk; `taken` is the model last installed from an offer."""

    def __init__(
        self,
        prototype: str,
        *,
        device: str,
        newest: Newest = Newest(),  # noqa: B008 - frozen
        finished: Iterable[str] = (),
        outbox: Iterable[Spooled] = (),
        taken: str | None = None,
    ) -> None:
        self.prototype, self.device = prototype, device
        self.phase = Phase.IDLE
        self.online = False
        self.uploads = {spooled.transfer: Upload(spooled) for spooled in outbox}
        self._now = 0.0
        self._work: _Work | None = None
        self._retry_at = float("inf")
        self._over = set(finished) | {upload.spooled.key for upload in self.uploads.values()}
        self._taken = taken
        self._newest = newest
        self._refused: set[tuple[str, str, int]] = set()
        self._announce_wait, self._announce_at = ANNOUNCE_S, float("inf")

    def handle(self, event: Event) -> list[Action]:
        """The actions for `event`, in order."""
        match event:
            case Tick(now):
                self._now = now
                return self._tick()
            case Connected():
                return self._connected()
            case Disconnected():
                self.online = False
                return []
            case Instructed(instruction, left):
                return self._instructed(instruction, None if left is None else self._now + left)
            case Answered(ack):
                return self._answered(ack)
            case TrainingDone(key, spooled):
                return self._done(key, spooled)
            case TrainingFailed(key, reason, again):
                return self._failed(key, reason, again)
            case _:
                return self._fetch(event)

    @property
    def due(self) -> float:
        """The latest time of the next `Tick`."""
        dues = [self._retry_at]
        if self.online:
            dues.append(self._announce_at)
            dues += [upload.due for upload in self.uploads.values()]
            dues += [download.due for download in self._work.downloads.values()] if self._work else []
        return min(dues)

    @property
    def progress(self) -> Progress:
        """How far the work is, without the steps of training."""
        work = self._work
        if work is None:
            return progress_of(self.phase.value, None, (), self.uploads.values())
        return progress_of(self.phase.value, work.instruction, work.downloads.values(), self.uploads.values())

    @property
    def needed(self) -> set[str]:
        """The models of the current work, which must not be evicted."""
        return set() if self._work is None else _digests(self._work.instruction)

    # ---- the link

    def _connected(self) -> list[Action]:
        self.online = True
        self._announce_wait = ANNOUNCE_S
        actions = self._announce()
        for upload in self.uploads.values():
            actions += upload.connected(self._now)
        for download in self._work.downloads.values() if self._work else ():
            actions += download.connected(self._now)
        return actions

    def _announce(self) -> list[Action]:
        """Announce again: a broker drops retained messages that exceed the aggregator's queue."""
        self._announce_at = self._now + self._announce_wait
        self._announce_wait = min(2 * self._announce_wait, MAX_ANNOUNCE_S)
        return [Announce()]

    def _tick(self) -> list[Action]:
        actions: list[Action] = []
        if self.online:
            if self._now >= self._announce_at:
                actions += self._announce()
            for upload in self.uploads.values():
                actions += upload.tick(self._now)
            for download in self._work.downloads.values() if self._work else ():
                actions += download.tick(self._now)
        if self.phase is Phase.WAITING and self._now >= self._retry_at:
            actions += self._train()
        return actions

    # ---- instructions

    def _instructed(self, new: Job | Offer | None, deadline: float | None) -> list[Action]:
        refusal = "" if new is None else self._refusal(new)
        if new is not None and refusal:
            return self._refuse(new, refusal)
        self._announce_at = float("inf")
        if new is None:
            return self._drop()
        key = instruction_key(new)
        if self._work is not None and key == self._work.key:
            self._put_off(new, deadline)
            return []
        if self._late(new):
            return [Say("debug", f"round {new.round}: {_name(new)} came late, passed over", new.round)]
        actions = [*self._follow(new), *self._drop()]
        if self._is_over(key) or (isinstance(new, Offer) and new.model == self._taken):
            return actions
        if new.prototype != self.prototype:
            self._over.add(key)
            reason = f"the {_name(new)} is for {new.prototype}, this device has {self.prototype}"
            return [*actions, Say("error", f"round {new.round}: {reason}; refused", new.round), *_report(new, reason)]
        return [*actions, Say("info", f"round {new.round}: {_name(new)}", new.round), *self._begin(key, new, deadline)]

    def _refusal(self, new: Job | Offer) -> str:
        if not (new.device and new.epoch):
            return "it names no device and no epoch; update the aggregator"
        if new.device != self.device:
            return f"it is for device {new.device!r}; does the broker mix up its topics?"
        return self._newest.refusal(new)

    def _refuse(self, new: Job | Offer, reason: str) -> list[Action]:
        """Log and report it once: a broker may replay a message indefinitely."""
        mark = instruction_key(new), new.device, new.number
        if mark in self._refused or len(self._refused) >= MAX_REFUSED:
            return []
        self._refused.add(mark)
        text = f"round {new.round}: {_name(new)} refused: {reason}"
        return [Say("warning", text, new.round), Report(0, text)]  # the current work continues

    def _follow(self, new: Job | Offer) -> list[Action]:
        """Record it as the newest; a new epoch invalidates everything of the older one."""
        before = self._newest
        self._newest = before.after(new, mine=new.prototype == self.prototype)
        if self._newest.epoch == before.epoch or not before.epoch:
            return [] if self._newest == before else [Follow(self._newest)]
        text = f"epoch {new.epoch}: the aggregator has begun anew, a restored backup perhaps"
        if self.uploads:
            text += f"; {len(self.uploads)} updates of the older epoch are dropped"
        actions = [Say("warning", text), *self._drop(), Follow(self._newest, forget=True)]
        self.uploads.clear()
        self._over.clear()
        self._taken = None
        return actions

    def _put_off(self, same: Job | Offer, deadline: float | None) -> None:
        """A deadline can only be extended: a job with an earlier one is an older copy."""
        assert self._work is not None
        at_work = self._work.instruction
        if isinstance(same, Job) and isinstance(at_work, Job) and same.deadline >= at_work.deadline:
            self._work.instruction, self._work.deadline = same, deadline

    def _late(self, new: Job | Offer) -> bool:
        at_work = self._work.instruction if self._work else None
        of_now = isinstance(at_work, Job) and new.epoch == at_work.epoch
        return isinstance(new, Offer) and at_work is not None and of_now and new.round < at_work.round

    def _is_over(self, key: str) -> bool:
        return key in self._over or plain_key(key) in self._over

    def _begin(self, key: str, new: Job | Offer, deadline: float | None) -> list[Action]:
        digests = sorted(_digests(new))
        self._work = _Work(key, new, deadline, {digest: Download(digest) for digest in digests})
        self.phase = Phase.FETCHING
        return [Look(digest) for digest in digests]

    def _drop(self) -> list[Action]:
        """Abandon the current work."""
        work, self._work = self._work, None
        phase, self.phase = self.phase, Phase.IDLE
        self._retry_at = float("inf")
        actions: list[Action] = []
        if work is not None and phase is Phase.TRAINING:
            actions += [
                Say("info", f"round {work.instruction.round}: training is stopped", work.instruction.round),
                StopTraining(work.key),
            ]
        for download in work.downloads.values() if work is not None and self.online else ():
            actions += download.dropped()
        return actions

    # ---- the start model

    def _fetch(self, event: Event) -> list[Action]:
        assert isinstance(event, Resumed | ChunkStored | Fetched | FetchFailed)
        work = self._work
        if work is None or event.digest not in work.downloads:
            return []
        download = work.downloads[event.digest]
        match event:
            case Resumed(_, count, missing):
                return [*download.resumed(count, missing, self._now, self.online)]
            case ChunkStored(_, n, count):
                return [*download.stored(n, count, self._now)]
            case FetchFailed(digest, reason):
                download.failed(self._now)
                return [Say("warning", f"model {digest[:12]}…: {reason}; fetching it again")]
        del work.downloads[event.digest]
        return [] if work.downloads else self._train()

    # ---- training

    def _train(self) -> list[Action]:
        work = self._work
        assert work is not None
        work.attempt += 1
        self.phase, self._retry_at = Phase.TRAINING, float("inf")
        left = None if work.deadline is None else max(work.deadline - self._now, 0.0)
        return [StartTraining(work.key, work.instruction, work.attempt, left)]

    def _done(self, key: str, spooled: Spooled | None) -> list[Action]:
        if self._at_work(key) and self._work is not None:
            if isinstance(self._work.instruction, Offer):
                self._taken = self._work.instruction.model
            self._work, self.phase = None, Phase.IDLE
        if spooled is None or spooled.transfer in self.uploads or self._of_before(spooled):
            return []
        self._over.add(key)
        self.uploads[spooled.transfer] = upload = Upload(spooled)
        return [*upload.connected(self._now)] if self.online else []

    def _failed(self, key: str, reason: str, again: bool) -> list[Action]:
        if not self._at_work(key) or self._work is None:
            return []
        work = self._work
        where = f"round {work.instruction.round}, attempt {work.attempt}"
        if again and work.attempt <= len(RETRY_S):
            wait = RETRY_S[work.attempt - 1]
            self.phase, self._retry_at = Phase.WAITING, self._now + wait
            return [Say("warning", f"{where}: {reason}; next attempt in {wait:g} s", work.instruction.round)]
        self._over.add(key)
        self._work, self.phase = None, Phase.IDLE
        return [
            Say("error", f"{where}: {reason}; given up", work.instruction.round),
            *_report(work.instruction, reason),
        ]

    def _of_before(self, spooled: Spooled) -> bool:
        """Whether it was trained for an older epoch, by a child that finished before it was stopped."""
        return epoch_of(spooled.key) not in (None, self._newest.epoch)

    def _at_work(self, key: str) -> bool:
        return self.phase is Phase.TRAINING and self._work is not None and self._work.key == key

    # ---- answers

    def _answered(self, ack: object) -> list[Action]:
        transfer: str = getattr(ack, "transfer", "")
        upload = self.uploads.get(transfer)
        if upload is None:
            return []  # already answered, or unknown
        if isinstance(ack, Missing):
            return [*upload.missing(ack.ranges, self._now)] if self.online else []
        del self.uploads[transfer]
        spooled = upload.spooled
        if isinstance(ack, Rejected):
            text = f"round {spooled.round}: the update was rejected: {ack.reason}"
            return [Say("warning", text, spooled.round), Settle(spooled, accepted=False)]
        return [
            Say("info", f"round {spooled.round}: the update was accepted", spooled.round),
            Settle(spooled, accepted=True),
        ]


def seconds_left(deadline: float, wall_clock: float) -> float | None:
    """Seconds until a job's deadline; None if the board's clock is obviously wrong, such as 1970 after a power cut.

    A deadline in the past also means a wrong clock: the aggregator withdraws expired jobs, and rejects late updates.
    Computed once, when the job arrives; from then on the monotonic clock is used.
    """
    left = deadline - wall_clock
    return left if 0 < left <= MAX_DEADLINE_S else None


def _digests(instruction: Job | Offer) -> set[str]:
    side_artifact = instruction.side_artifact
    return {instruction.model} | ({side_artifact} if side_artifact is not None else set())


def _name(instruction: Job | Offer) -> str:
    return "job" if isinstance(instruction, Job) else "offer"


def _report(instruction: Job | Offer, reason: str) -> list[Action]:
    return [Report(min(instruction.round, MAX_ROUND), reason)]
