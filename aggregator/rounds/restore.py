"""Rebuilds the round engine's state from the journal after a restart."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from aggregator.config.fleet import FleetConfig
from aggregator.rounds.events import GivenJob, Later
from aggregator.rounds.state import Hold, Phase, RoundState, Rules, Seen, forget_presence, why_done
from aggregator.storage.journal import Journal
from aggregator.storage.rows import RoundRow

__all__ = ["accuracies", "restore", "rules_of", "settle_mode"]

#: Minimum seconds that a round stays open after a restart: devices may be waiting with their updates.
GRACE = 30.0
PHASES = {"open": Phase.COLLECTING, "fusing": Phase.FUSING}


def rules_of(config: FleetConfig) -> Rules:
    """The engine's part of the configuration."""
    r = config.round
    return Rules(
        seed=config.seed,
        prototypes=config.prototypes,
        rounds=r.rounds,
        fraction=r.fraction,
        min_devices=r.min_devices,
        quorum=r.quorum,
        deadline_s=r.deadline_s,
        target_accuracy=r.target_accuracy,
        keep_late=r.late == "keep",
        throttled=r.throttled,
        throttled_deadline=r.throttled_deadline,
        buffer=r.buffer or 0,
        concurrency=r.concurrency,
        max_staleness=r.max_staleness,
    )


def accuracies(journal: Journal) -> dict[str, float]:
    """Accuracy of every prototype's current model, if scored."""
    return {name: m.metrics["accuracy"] for name, m in journal.current().items() if "accuracy" in m.metrics}


def restore(journal: Journal, rules: Rules, known: Collection[str], now: float) -> RoundState:
    """The state according to the journal; devices that are no longer `known` are omitted.

    Devices count as online once the broker delivers their states.
    """
    devices = {
        row.id: Seen(
            status=row.status,
            session=row.session,
            prototype=row.prototype,
            waiting=bool(row.samples.waiting),
            muted_until=row.muted_until,
            revoked=row.revoked,
        )
        for row in journal.devices()
        if row.id in known
    }
    completed = journal.completed()
    state = RoundState(
        rules=rules,
        phase=Phase.WAITING if set(rules.prototypes) <= journal.current().keys() else Phase.STARTING,
        hold=Hold(journal.get("hold", Hold.RUNNING.value)),
        completed=completed,
        devices=devices,
        done=why_done(rules, completed, accuracies(journal)),
    )
    state = forget_presence(state, math.inf)
    if rules.buffer:
        state = _with_jobs(state, journal, now)
    row = journal.last_round()
    return state if row is None else _in_round(state, row, journal, now)


def settle_mode(journal: Journal, rules: Rules, now: float) -> str:
    """After a restart with another mode: abandon the open round, and end all jobs of asynchronous rounds.

    A round that is being fused is finished. Returns what was done, or an empty string.
    """
    row, reason = journal.last_round(), "the mode of rounds was changed"
    other = row is not None and row.phase == "open" and bool(row.buffer) != bool(rules.buffer)
    jobs = [] if rules.buffer else [job.number for job in journal.jobs("open", "lapsed")]
    waiting = [] if rules.buffer else journal.buffer()
    if not (other or jobs or waiting):
        return ""
    with journal.transaction():
        if row is not None and other:
            journal.set_round(row.number, phase="abandoned", closed=now, reason=reason)
        journal.set_jobs(jobs, "ended")
        if not rules.buffer:
            journal.drop_buffer(reason)
    abandoned = f"round {row.number} is abandoned, " if row is not None and other else ""
    return f"{reason}: {abandoned}{len(jobs)} jobs are ended, {len(waiting)} updates are dropped"


def _with_jobs(state: RoundState, journal: Journal, now: float) -> RoundState:
    """Who trains, and what waits in the buffer of asynchronous rounds."""
    least = now + min(GRACE, state.rules.deadline_s)
    jobs = {
        mode: {
            row.device: GivenJob(
                number=row.number,
                round=row.round,
                version=row.version,
                prototype=row.prototype,
                deadline=max(row.deadline, least),
            )
            for row in journal.jobs(mode)
        }
        for mode in ("open", "lapsed")
    }
    return replace(
        state,
        working=jobs["open"],
        lapsed=jobs["lapsed"],
        buffer=tuple(row.device for row in journal.buffer()),
        given=journal.jobs_given(),
    )


def _in_round(state: RoundState, row: RoundRow, journal: Journal, now: float) -> RoundState:
    if row.phase not in PHASES:
        return replace(state, round=row.number)
    answered = frozenset(u.device for u in journal.updates(row.number))
    later = None if row.extended else journal.later(row.number)
    return replace(
        state,
        phase=Phase.STARTING if state.phase is Phase.STARTING else PHASES[row.phase],
        then=PHASES[row.phase],
        round=row.number,
        invited={i.device: i.prototype for i in journal.invitations(row.number)},
        answered=answered,
        gave_up=frozenset(journal.failures(row.number)) - answered - state.working.keys() - set(state.buffer),
        deadline=max(row.deadline, now + min(GRACE, state.rules.deadline_s)),
        later=None if later is None else Later(frozenset(later[1]), later[0]),
        extended=row.extended,
    )
