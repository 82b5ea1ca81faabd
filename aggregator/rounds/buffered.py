"""The engine of asynchronous rounds, without I/O: FedBuff, Nguyen et al. 2022, Algorithm 1, arXiv:2106.06639.

Some devices train at any time, each from the model that was newest when it was given its job. An accepted update goes
to a buffer and frees a place, which another job takes. When the buffer holds K updates, its K oldest ones are fused. A
round is one fusion, and open from the previous one on; its number, and with it the number of a version, counts fusions.

    WAITING ──enough devices──▶ COLLECTING ──K updates in the buffer──▶ FUSING ──Fused──▶ WAITING ──▶ …

Which updates are fused together depends only on the order in which they were accepted. A job that has no place any
more is lapsed: it was too slow, but its update still counts. While a round is fused no job is given, because the model
that it would start from is about to be replaced; updates are accepted in every phase, and wait in the buffer.

    event        COLLECTING                        FUSING                           WAITING
    Tick         give jobs; a job whose deadline   -                                open a round, then as COLLECTING
                 has passed lapses if another
                 device can take its place; end
                 jobs that are too old; fuse a
                 full buffer
    Stored       into the buffer; fuse a full one  into the buffer                  into the buffer
    GaveUp       its place is free; no other job   its place is free                its place is free
                 until the round's deadline
    Revoked      withdraw job and updates          withdraw; fuse the others, or    withdraw
                                                   abandon
    SetAside     -                                 as Revoked                       -
    Stop         end all jobs; fuse a quorum of    end all jobs; the round is the   end all jobs
                 the buffer, or abandon            last
    Skip         drop the buffer, abandon          abandon                          -
    RolledBack   end all jobs, drop the buffer,    end all jobs, drop the buffer,   end all jobs, drop the
                 abandon                           abandon                          buffer
    Unfusable    -                                 abandon                          -
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from aggregator.rounds.events import (
    Abandon,
    Action,
    AskAgain,
    Close,
    DropBuffer,
    EndJobs,
    Event,
    Finish,
    Fuse,
    Fused,
    GaveUp,
    Give,
    GivenJob,
    Lapse,
    Open,
    RolledBack,
    SetAside,
    Skip,
    Stop,
    Stored,
    Tick,
    Unfusable,
    Withdraw,
)
from aggregator.rounds.sampling import draw, share_of
from aggregator.rounds.state import Hold, Phase, RoundState, Stepped, Verdict, eligible, enter, why_done
from core.errors import RoundError
from wire.refusals import RefusalReason

__all__ = ["job_of", "judge", "step", "withdraw"]


def step(state: RoundState, event: Event) -> Stepped:
    """The next state and the actions for `event`; those of devices and of the broker are handled in `engine.py`."""
    match event:
        case Tick(now):
            return _tick(state, now)
        case Stored(device, round_number, job):
            return _stored(state, device, round_number, job)
        case GaveUp(device, round_number):
            return _gave_up(state, device, round_number)
        case Fused(round_number, accuracies):
            return _fused(state, round_number, accuracies)
        case SetAside(device, reason) if state.phase is Phase.FUSING:
            return withdraw(state, device, reason)
        case Unfusable(reason) if state.phase is Phase.FUSING:
            return _abandon(state, reason)
        case Skip() if state.in_round:
            return _skipped(state)
        case RolledBack():
            return _rolled_back(state)
        case Stop():
            return _stop(state)
    return state, []


def judge(state: RoundState, device: str, round_number: int) -> Verdict:
    """The verdict on a valid update of `device` for a job of round `round_number`."""
    job = job_of(state, device, round_number)
    if job is None:
        if round_number > state.round:
            return Verdict(RefusalReason.NOT_OPENED)
        closed = round_number < state.round
        return Verdict(RefusalReason.LATE if closed else RefusalReason.NOT_INVITED, late=closed)
    return Verdict(RefusalReason.LATE, late=True) if _too_stale(state, job) else Verdict(job=job.number)


def job_of(state: RoundState, device: str, round_number: int) -> GivenJob | None:
    """The job of this round that the device may still answer: the one that it was given last."""
    for jobs in (state.working, state.lapsed):
        if device in jobs and jobs[device].round == round_number:
            return jobs[device]
    return None


def _too_stale(state: RoundState, job: GivenJob) -> bool:
    """Whether an update that is accepted now would be fused into too late a version."""
    ahead = len(state.buffer) // state.rules.buffer + (state.in_round is Phase.FUSING)
    most = state.rules.max_staleness
    return most is not None and state.completed + ahead - job.version > most


# ---- jobs


def _tick(state: RoundState, now: float) -> Stepped:
    actions: list[Action] = []
    if state.phase is Phase.WAITING and state.hold is Hold.RUNNING and not state.done:
        state, actions = _try_open(state, now)
    if state.phase is not Phase.COLLECTING:
        return state, actions
    if state.hold is Hold.STOPPED:  # while a model was built
        state, more = _stop(state)
    elif len(state.buffer) >= state.rules.buffer:  # of the round before, or after a restart
        state, more = _fuse(state, state.rules.buffer)
    else:
        state, more = _manage(state, now)
    return state, [*actions, *more]


def _try_open(state: RoundState, now: float) -> Stepped:
    there = eligible(state, now).keys() | state.working.keys()
    if len(state.buffer) < state.rules.buffer and (len(there) < state.rules.min_devices or state.unheard):
        return state, []
    number, deadline = state.round + 1, now + state.rules.deadline_s
    state = replace(
        state,
        phase=Phase.COLLECTING,
        round=number,
        invited={},
        answered=frozenset(),
        gave_up=frozenset(),
        deadline=deadline,
        later=None,
        extended=False,
    )
    return state, [Open(number, {}, deadline)]


def _manage(state: RoundState, now: float) -> Stepped:
    """End jobs that are too old, and give new ones."""
    patience = state.rules.deadline_s
    state, actions = _end_jobs(
        state, lambda job, lapsed: _too_stale(state, job) or (lapsed and now >= job.deadline + patience)
    )
    if state.gave_up and now >= state.deadline:
        state = replace(state, gave_up=frozenset(), deadline=now + patience)
        actions.append(AskAgain(state.round, state.deadline))
    if state.unheard:
        return state, actions
    state, lapsed = _make_room(state, now)
    state, given = _give(state, now)
    return state, [*actions, *lapsed, *given]


def _idle(state: RoundState, now: float) -> dict[str, str]:
    """Devices that may be given a job, and their prototypes."""
    busy = state.working.keys() | state.gave_up
    return {device: prototype for device, prototype in eligible(state, now).items() if device not in busy}


def _places(state: RoundState, now: float) -> int:
    """Number of devices that may train at a time."""
    there = eligible(state, now).keys() | state.working.keys()
    return state.rules.concurrency or share_of(len(there), state.rules.fraction)


def _make_room(state: RoundState, now: float) -> Stepped:
    """As many jobs lapse as there are idle devices without a place, those with the oldest deadline first.

    A device that owes an update pushes out nobody: it still works on that.
    """
    rested = _idle(state, now).keys() - state.lapsed.keys()
    wanting = len(rested) - (_places(state, now) - len(state.working))
    late = sorted((job.deadline, device) for device, job in state.working.items() if job.deadline <= now)
    devices = [device for _, device in late[: max(wanting, 0)]]
    if not devices:
        return state, []
    working = {device: job for device, job in state.working.items() if device not in devices}
    lapsing = {device: state.working[device] for device in devices}
    forgotten = tuple(state.lapsed[device].number for device in devices if device in state.lapsed)
    actions: list[Action] = [EndJobs(forgotten)] if forgotten else []
    actions.append(Lapse(tuple(job.number for job in lapsing.values())))
    return replace(state, working=working, lapsed={**state.lapsed, **lapsing}), actions


def _give(state: RoundState, now: float) -> Stepped:
    """Jobs for idle devices, drawn by seed and number of the job.

    Those that still owe an update come last, and only if there is a newer model: another job would interrupt the first.
    """
    idle, free = _idle(state, now), _places(state, now) - len(state.working)
    rested = [device for device in idle if device not in state.lapsed]
    owing = [device for device in idle if device in state.lapsed and state.lapsed[device].version < state.completed]
    chosen: list[str] = []
    for devices in (rested, owing):
        count = min(len(devices), max(free, 0) - len(chosen))
        chosen += draw(devices, count, state.rules.seed, "job", state.given + 1) if count > 0 else []
    actions: list[Action] = []
    for device in chosen:
        number = state.given + 1
        job = GivenJob(
            number=number,
            round=state.round,
            version=state.completed,
            prototype=idle[device],
            deadline=now + _patience(state, device),
        )
        state = replace(state, given=number, working={**state.working, device: job})
        actions.append(Give(device, job))
    return state, actions


def _patience(state: RoundState, device: str) -> float:
    rules = state.rules
    slow = rules.throttled == "later" and state.devices[device].throttled
    return rules.deadline_s * (rules.throttled_deadline if slow else 1.0)


def _end_jobs(
    state: RoundState, over: Callable[[GivenJob, bool], bool] = lambda _job, _lapsed: True
) -> tuple[RoundState, list[Action]]:
    """End the jobs that are `over`, by default all."""
    kept: list[dict[str, GivenJob]] = []
    ended: list[int] = []
    for jobs, lapsed in ((state.working, False), (state.lapsed, True)):
        kept.append({device: job for device, job in jobs.items() if not over(job, lapsed)})
        ended += [job.number for job in jobs.values() if over(job, lapsed)]
    working, lapsed_jobs = kept
    return replace(state, working=working, lapsed=lapsed_jobs), [EndJobs(tuple(sorted(ended)))] if ended else []


# ---- updates


def _stored(state: RoundState, device: str, round_number: int, number: int) -> Stepped:
    working = state.working.get(device)
    lapsed = state.lapsed.get(device)
    if working is not None and working.number == number:
        state = replace(state, working=_without(state.working, device))
    elif lapsed is not None and lapsed.number == number:
        state = replace(state, lapsed=_without(state.lapsed, device))
    else:
        raise RoundError(f"job {number} of {device!r}, round {round_number}: an update was stored out of turn")
    state = replace(state, buffer=(*state.buffer, device), gave_up=state.gave_up - {device})
    full = state.phase is Phase.COLLECTING and len(state.buffer) >= state.rules.buffer
    return _fuse(state, state.rules.buffer) if full else (state, [])


def _gave_up(state: RoundState, device: str, round_number: int) -> Stepped:
    if not state.awaits(device, round_number):
        return state, []
    job = state.working[device]
    state = replace(state, working=_without(state.working, device), gave_up=state.gave_up | {device})
    return state, [EndJobs((job.number,))]


def _without(jobs: Mapping[str, GivenJob], device: str) -> dict[str, GivenJob]:
    return {name: job for name, job in jobs.items() if name != device}


# ---- rounds


def _fuse(state: RoundState, count: int) -> Stepped:
    chosen = state.buffer[:count]
    state = replace(state, answered=frozenset(chosen), buffer=state.buffer[count:])
    return enter(state, Phase.FUSING), [Fuse(state.round, len(chosen))]


def _fused(state: RoundState, round_number: int, accuracies: Mapping[str, float]) -> Stepped:
    if state.phase is not Phase.FUSING or round_number != state.round:
        raise RoundError(f"round {round_number} was fused while round {state.round} is {state.phase.value}")
    completed = state.completed + 1
    done = why_done(state.rules, completed, accuracies)
    state = replace(state, phase=Phase.WAITING, completed=completed, done=done, deadline=math.inf, answered=frozenset())
    state, ended = _end_jobs(state) if done else (state, [])
    return state, [Close(round_number), *ended, *([Finish(done)] if done else [])]


def withdraw(state: RoundState, device: str, reason: str) -> Stepped:
    """Continue without this device, its jobs and its updates; a fusion without any update is abandoned."""
    fusing = state.in_round is Phase.FUSING and device in state.answered
    if not fusing and device not in {*state.working, *state.lapsed, *state.buffer}:
        return state, []
    state = replace(
        state,
        working=_without(state.working, device),
        lapsed=_without(state.lapsed, device),
        buffer=tuple(name for name in state.buffer if name != device),
        answered=state.answered - {device},
    )
    actions: list[Action] = [Withdraw(state.round, device, reason)]
    if fusing and state.answered:
        actions.append(Fuse(state.round))
    elif fusing:
        state, more = _abandon(state, "no update is left")
        actions += more
    return state, actions


def _skipped(state: RoundState) -> Stepped:
    reason = "skipped by the operator"
    dropped: list[Action] = []
    if state.in_round is Phase.COLLECTING:
        state, dropped = _drop_buffer(state, reason)
    state, actions = _abandon(state, reason)
    return state, [*dropped, *actions]


def _rolled_back(state: RoundState) -> Stepped:
    """Nothing that was trained from the newer models is used."""
    state, ended = _end_jobs(state)
    state, dropped = _drop_buffer(state, "rolled back")
    abandoned: list[Action] = []
    if state.in_round:
        state, abandoned = _abandon(state, "rolled back")
    return state, [*ended, *dropped, *abandoned]


def _stop(state: RoundState) -> Stepped:
    if state.phase is Phase.STARTING:
        return state, []  # at the first tick after it
    state, actions = _end_jobs(state)
    more: list[Action] = []
    if state.phase is Phase.COLLECTING and len(state.buffer) >= state.needed:
        state, more = _fuse(state, len(state.buffer))
    elif state.phase is Phase.COLLECTING:
        state, dropped = _drop_buffer(state, "stopped")
        state, more = _abandon(state, "stopped")
        more = [*dropped, *more]
    return state, [*actions, *more]


def _drop_buffer(state: RoundState, reason: str) -> Stepped:
    return replace(state, buffer=()), [DropBuffer(reason)] if state.buffer else []


def _abandon(state: RoundState, reason: str) -> Stepped:
    state = replace(state, deadline=math.inf, answered=frozenset())
    return enter(state, Phase.WAITING), [Abandon(state.round, reason)]
