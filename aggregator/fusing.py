"""The worker's part of a round: sends it requests to build or fuse models, and records its answers.

If a round cannot be fused, each of its updates is tried alone: those that fail are set aside, and their devices are
muted for a while. If none of them fails, the round is retried; after several attempts the fleet is paused until the
operator resumes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from aggregator.config.fleet import FleetConfig
from aggregator.round_log import log_closed
from aggregator.rounds.events import Event, ModelsReady, Muted, Pause, SetAside, Stop, Unfusable
from aggregator.rounds.restore import accuracies
from aggregator.rounds.state import Hold, Phase, RoundState
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.rows import ModelRow, Refusal
from aggregator.worker.supervisor import WorkerProcess
from core.crashpoints import reach
from core.errors import RoundError, StorageError
from core.files import write_atomic
from wire.refusals import RefusalReason

__all__ = ["Fusing"]

log = logging.getLogger("edgestill.aggregator")
TRACEBACK = "fusion-error.txt"  # in the state folder: traceback of the last unexpected failure
TRIES = 3  # attempts at a round in which no update is to blame, before the fleet is paused
RETRY_S = 2.0  # after the worker could not write


class Rounds(Protocol):
    """The part of the conductor that fusing uses."""

    state: RoundState

    def feed(self, event: Event, record: Callable[[], None] | None = None) -> None:
        """Step the engine and execute its actions; `record` writes to the journal in the same transaction."""

    def close(self, accuracies: Mapping[str, float], record: Callable[[], None]) -> None:
        """The open round is fused; `record` writes its results to the journal."""


class Fusing:
    """State of the worker; `muted(device, until)` is called with devices whose updates were set aside."""

    def __init__(
        self,
        rounds: Rounds,
        config: FleetConfig,
        *,
        journal: Journal,
        blobs: Blobs,
        worker: WorkerProcess,
        clock: Callable[[], float],
        muted: Callable[[str, float], object],
    ) -> None:
        self._rounds, self.config, self.journal, self.blobs, self.worker = rounds, config, journal, blobs, worker
        self._clock, self._muted = clock, muted
        self._answer: dict[str, Any] | None = None  # of the worker, until its consequences are durable
        self._failures = 0
        self.stuck = ""  # why fusing the open round failed for good, until a command of the operator
        self._examined: tuple[int, frozenset[str]] | None = None  # round and updates in which no update was to blame
        self._ask_after = 0.0  # time of the next request to the worker

    def drive(self) -> None:
        """Process the worker's answer, if any, and send it the next request."""
        if self._answer is None:
            self._answer = self.worker.take()
        if self._answer is not None:
            try:
                self._answered(self._answer)
            except StorageError as error:  # the results are lost
                log.error("%s; the worker makes it again", error)
                self._ask_after = self._clock() + RETRY_S
            self._answer = None
        self.engage()

    def engage(self) -> None:
        """Request from an idle worker what the round waits for."""
        state = self._rounds.state
        if self.worker.busy or self._answer is not None or self._clock() < self._ask_after:
            return
        if state.phase is Phase.STARTING:
            missing = [p for p in self.config.prototypes if p not in self.journal.current()]
            log.info("building the first models of %s", " ".join(missing))
            self.worker.ask({"task": "start", "prototypes": missing})
        elif state.phase is Phase.FUSING and not self.stuck:
            self.worker.ask({"task": "fuse", "round": state.round})

    def begin_round(self) -> None:
        """A round has opened: start the worker while the devices still train."""
        self.stuck, self._examined, self._failures = "", None, 0
        try:
            self.worker.warm()
        except OSError as error:
            log.warning("the worker process cannot be started yet: %s", error)

    def cancel(self) -> None:
        """Drop the fusion in progress, whose result is no longer needed."""
        self.stuck, self._failures = "", 0
        if self.worker.busy and self._rounds.state.phase is not Phase.STARTING:
            self.worker.cancel()

    def operator_said(self, event: Event) -> None:
        """After resume or stop: retry the round that could not be fused, or abandon it."""
        if self.stuck and isinstance(event, Stop):
            self._rounds.feed(Unfusable("stopped; it could not be fused"))
        self.stuck, self._examined, self._failures = "", None, 0

    # answers

    def _answered(self, answer: dict[str, Any]) -> None:
        state = self._rounds.state
        wanted = state.phase is Phase.STARTING or answer.get("round", state.round) == state.round
        if "error" in answer:
            error = answer["error"] + self._keep_traceback(answer.get("traceback"))
            self._worker_failed(error, storage=bool(answer.get("storage")))
        elif answer["task"] == "start":
            self._rounds.feed(ModelsReady(), lambda: self._add_models(answer["models"], "start"))
        elif not wanted or state.phase is not Phase.FUSING:
            log.debug("an answer of the worker that nobody waits for any more: %s", answer["task"])
        elif answer["task"] == "examine":
            self._set_aside(answer["culprits"])
        else:
            reach("aggregator-fused")
            for note in answer.get("notes", ()):
                log.warning("round %d: %s", state.round, note, extra={"round": state.round})
            self._close(answer["models"], answer.get("report", {}))

    def _close(self, made: list[dict[str, Any]], report: dict[str, Any]) -> None:
        """The worker has fused the open round."""
        number = self._rounds.state.round
        new = {m["prototype"]: m["metrics"]["accuracy"] for m in made if "accuracy" in m["metrics"]}

        def record() -> None:
            self._add_models(made, "fused")
            self.journal.add_report(number, report)

        self._rounds.close({**accuracies(self.journal), **new}, record)
        self._failures = 0
        full = {m["prototype"]: m["metrics"]["accuracy_float"] for m in made if "accuracy_float" in m["metrics"]}
        log_closed(number, new, report, full)

    def _add_models(self, made: list[dict[str, Any]], origin: str) -> None:
        known = self.journal.models_of(model["digest"] for model in made)
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

    # failures

    def _keep_traceback(self, text: str | None) -> str:
        """Write the traceback of a failure in a user's part, or of an unexpected one; returns a text with its path."""
        if not text:
            return ""
        log.debug("in the worker:\n%s", text)
        path = self.config.state / TRACEBACK
        try:
            write_atomic(path, text)
        except OSError as error:
            log.warning("%s cannot be written: %s", path, error)
            return ""
        return f" (traceback: {path})"

    def _worker_failed(self, error: str, *, storage: bool) -> None:
        state = self._rounds.state
        if storage:
            log.error("the worker cannot write below %s: %s; make room, it is tried again", self.config.state, error)
            self._ask_after = self._clock() + RETRY_S
        elif state.phase is Phase.STARTING:
            raise RoundError(f"the first models cannot be built: {error}")
        elif state.phase is not Phase.FUSING:
            log.error("the worker failed: %s", error)
        elif state.hold is Hold.STOPPED:
            self._rounds.feed(Unfusable(f"it cannot be fused: {error}"))
        elif self._examined != (state.round, state.answered):
            log.error(
                "round %d cannot be fused: %s; each update is tried alone",
                state.round,
                error,
                extra={"round": state.round},
            )
            self._examined = state.round, state.answered
            self.worker.ask({"task": "examine", "round": state.round})
        else:
            self._try_again(state.round, error)

    def _try_again(self, number: int, error: str) -> None:
        self._failures += 1
        if self._failures < TRIES:
            log.error("round %d cannot be fused: %s; trying again", number, error, extra={"round": number})
            return
        log.error(
            "round %d cannot be fused, and no update alone is the cause: %s; paused: fix it, then"
            " `edgestill aggregator resume`, or give the round up with `edgestill round skip`",
            number,
            error,
            extra={"round": number},
        )
        self._rounds.feed(Pause(), lambda: self.journal.put("hold", "paused"))
        self._failures, self.stuck = 0, error

    def _set_aside(self, culprits: dict[str, str]) -> None:
        """Remove the updates that cannot be fused from the round, and mute their devices for a while."""
        number = self._rounds.state.round
        if not culprits:
            log.warning("round %d: every update can be fused alone; trying again", number, extra={"round": number})
        rows = {row.device: row for row in self.journal.updates(number)}
        late = {row.device: row for row, _ in self.journal.late_teachers(number)}
        for device, reason in culprits.items():
            refusal = Refusal(
                device=device,
                transfer=(rows.get(device) or late[device]).transfer,
                round=number if device in rows else late[device].round,
                reason=RefusalReason.NOT_FUSABLE.say(detail=reason)[:500],
                time=self._clock(),
                why=RefusalReason.NOT_FUSABLE,
            )
            log.error(
                "round %d: the update of %r is set aside: it %s",
                number,
                device,
                refusal.reason,
                extra={"device": device, "round": number},
            )
            self._exclude(refusal, self._clock() + self.config.limits.mute_s)

    def _exclude(self, refusal: Refusal, until: float) -> None:
        def record() -> None:
            self.journal.add_refusal(refusal)
            self.journal.withdraw(refusal.round, refusal.device, refusal.reason)
            self.journal.note_device(refusal.device, muted_until=until)

        self._rounds.feed(SetAside(refusal.device, refusal.reason), record)
        self._rounds.feed(Muted(refusal.device, until))
        self._muted(refusal.device, until)
