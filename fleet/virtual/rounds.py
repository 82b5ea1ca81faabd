"""A round in virtual time, by the aggregator's own round engine: the deadline, its one extension, the quorum."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aggregator.rounds.engine import step
from aggregator.rounds.events import Abandon, Action, Stored, Tick
from aggregator.rounds.state import Phase, RoundState, Rules, Seen

__all__ = ["Collected", "collect"]

#: When each invited device's update arrives, in virtual seconds; infinity: never.
Arrivals = Callable[[Mapping[str, str]], Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """The outcome of a round."""

    invited: tuple[str, ...]
    answered: tuple[str, ...]  # in time, in order of arrival
    late: tuple[str, ...]  # updates that arrived after the round was closed
    lost: tuple[str, ...]  # updates that never arrived
    opened: float
    closed: float
    abandoned: str = ""  # why nothing was fused


def collect(rules: Rules, round_number: int, there: Mapping[str, str], now: float, arrivals: Arrivals) -> Collected:
    """Open round `round_number` at `now` with the available devices (id: prototype) and collect the answers in time."""
    devices = {device: Seen(status="online", prototype=prototype) for device, prototype in there.items()}
    state = RoundState(rules=rules, phase=Phase.WAITING, round=round_number - 1, devices=devices)
    state, _ = step(state, Tick(now))
    if state.phase is not Phase.COLLECTING:
        why = f"{len(there)} devices are available, {rules.min_devices} are needed"
        return Collected(invited=(), answered=(), late=(), lost=(), opened=now, closed=now, abandoned=why)
    times = arrivals(state.invited)
    state, answered, closed, actions = _until_closed(state, times, now)
    rest = sorted((times[device], device) for device in state.invited if device not in answered)
    return Collected(
        invited=tuple(state.invited),
        answered=tuple(answered),
        late=tuple(device for at, device in rest if at < math.inf),
        lost=tuple(device for at, device in rest if at == math.inf),
        opened=now,
        closed=closed,
        abandoned=next((action.reason for action in actions if isinstance(action, Abandon)), ""),
    )


def _until_closed(
    state: RoundState, times: Mapping[str, float], now: float
) -> tuple[RoundState, list[str], float, list[Action]]:
    """(state, devices that answered, closing time, the engine's last actions)."""
    answered: list[str] = []
    actions: list[Action] = []
    queue = sorted((times[device], device) for device in state.invited)
    while state.phase is Phase.COLLECTING:
        at, device = queue[0] if queue else (math.inf, "")
        if at < state.deadline:
            now = at
            state, actions = step(state, Stored(device, state.round))
            answered.append(queue.pop(0)[1])
        else:
            now = state.deadline
            state, actions = step(state, Tick(now))
    return state, answered, now, actions
