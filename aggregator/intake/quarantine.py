"""Quarantine: the aggregator unsubscribes from flooding devices for a while, so that the broker drops their messages.

The aggregator subscribes to all devices with one filter per kind of topic (`+/up`, `+/state`, ...). Dropping a message
is cheap but not free, and messages that the aggregator does not read in time are dropped by the broker, including those
of honest devices. So when many messages of a kind were dropped in a short time, that filter is replaced by the topics
of the known devices, without those that are over their budgets or muted. After a while, longer each time that the flood
persists, the filter is restored. Nothing is lost for good: retained messages are sent again, and devices retry.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from wire.topics import aggregator_filters

__all__ = ["Quarantine"]

log = logging.getLogger("edgestill.aggregator")
STEP_S = 0.25  # between two checks
FLOOD = 100  # dropped messages of a kind since the last check
HOLD_S, MAX_HOLD_S = 30.0, 600.0
CALM_S = 60.0  # after which a flood counts as a new one
OPEN_KINDS = ("enrol",)  # with unknown senders


@dataclass(slots=True)
class _Held:
    until: float
    seconds: float
    filters: dict[str, list[str]]  # by device; empty: no device


class Quarantine:
    """The kinds of topics in quarantine, and the filters used instead."""

    def __init__(
        self,
        fleet: str,
        *,
        subscribe: Callable[[Sequence[str]], bool],
        unsubscribe: Callable[[Sequence[str]], bool],
    ) -> None:
        self._subscribe, self._unsubscribe = subscribe, unsubscribe
        self._filters: dict[str, list[str]] = {}
        for pattern in aggregator_filters(fleet):
            self._filters.setdefault(pattern.split("/")[4], []).append(pattern)
        self._held: dict[str, _Held] = {}
        self._next = 0.0
        self._before: dict[str, tuple[float, float]] = {}  # when the quarantine of a kind ended, and how long it was

    def forget(self) -> None:
        """A new connection: all filters are the initial ones."""
        self._held.clear()

    def due(self, now: float) -> bool:
        """Whether the next check is due."""
        return now >= self._next

    def look(self, dropped: Mapping[str, int], devices: Collection[str], bad: Collection[str], now: float) -> None:
        """`dropped` messages by kind since the last check; of the known `devices`, the `bad` ones are excluded."""
        self._next = now + STEP_S
        for kind, held in list(self._held.items()):
            if now >= held.until:
                self._let_go(kind, now)
            elif dropped.get(kind, 0) >= FLOOD:
                self._put_out(held, bad)
        for kind, count in dropped.items():
            if count >= FLOOD and kind in self._filters and kind not in self._held:
                self._hold(kind, [device for device in devices if device not in bad], sorted(bad), now)

    def _hold(self, kind: str, devices: Sequence[str], bad: Sequence[str], now: float) -> None:
        everybody = self._filters[kind]
        named = () if kind in OPEN_KINDS else devices
        filters = {device: [pattern.replace("+", device, 1) for pattern in everybody] for device in named}
        if (filters and not self._subscribe(_all(filters.values()))) or not self._unsubscribe(everybody):
            return
        let_go, seconds = self._before.get(kind, (-CALM_S, HOLD_S))
        seconds = min(2 * seconds, MAX_HOLD_S) if now - let_go < CALM_S else HOLD_S
        self._held[kind] = _Held(now + seconds, seconds, filters)
        listened = f"the {len(filters)} devices within their budgets" if filters else "nobody"
        who = f" from {' '.join(map(repr, bad[:5]))}" if bad else ""
        log.warning("a flood of %r messages%s: for %.0f s it is listened to %s", kind, who, seconds, listened)

    def _put_out(self, held: _Held, bad: Collection[str]) -> None:
        """Another device has joined the flood."""
        gone = [device for device in held.filters if device in bad]
        if gone and self._unsubscribe(_all(held.filters[device] for device in gone)):
            for device in gone:
                del held.filters[device]

    def _let_go(self, kind: str, now: float) -> None:
        held = self._held[kind]
        if not self._subscribe(self._filters[kind]):
            return
        if held.filters:
            self._unsubscribe(_all(held.filters.values()))
        del self._held[kind]
        self._before[kind] = now, held.seconds


def _all(filters: Iterable[Sequence[str]]) -> list[str]:
    return [pattern for some in filters for pattern in some]
