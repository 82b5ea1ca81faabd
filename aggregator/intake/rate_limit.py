"""Rate limits per device and minute, so that a flooding device slows only itself.

        messages, bytes   of any kind
    reports           messages other than chunks: state, about, metrics, reported
    transfers         updates begun
    processor time    spent on its messages, measured around their handling

A message over the budget is dropped unread when it arrives, on the network thread, before it takes room from others:
the protocol tolerates loss, and devices retry. Unknown boards (which may request enrolment) and revoked devices share
one small budget, and each has a smaller one of its own. All messages of a muted device are dropped.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum

from aggregator.config.fleet import LimitConfig
from aggregator.intake.token_bucket import MINUTE, Account, TokenBucket
from quant.onnx.apart import seconds_spent
from wire.chunks import DEFAULT_CHUNK

__all__ = ["RateLimiter", "Standing"]

MAX_TOPIC = 256  # characters; wire/topics.py
AT_ONCE = 2  # largest updates in a burst: one that was interrupted is sent again
PACKET = DEFAULT_CHUNK + 256  # bytes of a chunk with its overhead
REPORT_BYTES = 256 * 1024  # the longest
CPU_S_PER_MB = 0.03  # of an update; some 0.015 were measured
PARTS = 10  # of a minute: other bursts are limited to the budget of 6 seconds
STRANGERS, STRANGER = 600.0, 12.0  # messages a minute: of all unknown or revoked senders, and of one of them
STRANGER_BYTES = 256 * 1024  # of one of their messages
REMEMBERED = 1000  # strangers
STRANGER_LANE = "?"  # not a valid device id


class Standing(Enum):
    """The access class of a device."""

    KNOWN = "known"
    STRANGER = "stranger"  # unknown, or revoked
    MUTED = "muted"


class RateLimiter:
    """All devices' budgets; its methods may be called on any thread."""

    def __init__(
        self, limits: LimitConfig, standing: Callable[[str], Standing], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._standing, self._clock = standing, clock
        self._limits = limits
        self._lock = threading.Lock()
        self._drops: Counter[str] = Counter()
        self._accounts: dict[str, Account] = {}  # of known devices
        self._strangers = TokenBucket(STRANGERS, clock())
        self._stranger: OrderedDict[str, TokenBucket] = OrderedDict()

    def admit(self, topic: str, size: int) -> str | None:
        """The device's lane for a message of `size` bytes; None: it is dropped unread."""
        levels = topic.split("/", 5)
        if len(levels) < 5:
            return None
        device, leaf = levels[3], levels[4]
        lane = None if len(topic) > MAX_TOPIC else self._lane(topic, device, leaf, size)
        if lane is None:
            with self._lock:
                self._drops[leaf] += 1
        return lane

    def _lane(self, topic: str, device: str, leaf: str, size: int) -> str | None:
        standing = self._standing(device)
        if standing is Standing.MUTED:
            return None
        with self._lock:
            now = self._clock()
            if standing is Standing.STRANGER or leaf == "enrol":
                return STRANGER_LANE if self._admit_stranger(device, size, now) else None
            amounts = {"messages": 1, "bytes": len(topic) + size, "processor time": 0}
            if leaf != "up":
                amounts["reports"] = 1
            return device if self._account(device, now).take(now, amounts) else None

    def use(self, limits: LimitConfig) -> None:
        """Other budgets from now on, full at first."""
        with self._lock:
            if limits != self._limits:
                self._limits = limits
                for account in self._accounts.values():
                    account.buckets = self._buckets(self._clock())

    def begin(self, device: str) -> bool:
        """Whether a device may begin another transfer now."""
        with self._lock:
            now = self._clock()
            begun = self._account(device, now).take(now, {"transfers": 1})
            self._drops["up"] += not begun
            return begun

    @contextmanager
    def charge(self, topic: str) -> Iterator[None]:
        """A context that charges CPU time of this thread, its children and ONNX graphs to the topic's device."""
        before = _processor_time()
        try:
            yield
        finally:
            device = topic.split("/", 4)[3:4]
            if device and self._standing(device[0]) is Standing.KNOWN:
                self.spend(device[0], _processor_time() - before)

    def spend(self, device: str, seconds: float) -> None:
        """Charge processor time to a device."""
        with self._lock:
            now = self._clock()
            self._account(device, now).buckets["processor time"].spend(seconds, now)

    def overflowed(self, device: str, count: int) -> None:
        """Count messages that were dropped because the device's lane was full."""
        with self._lock:
            if device != STRANGER_LANE:
                now = self._clock()
                self._account(device, now).drop("messages at once", count, now)
            self._drops["up"] += count  # other floods have already exhausted the reports budget

    def drops(self) -> Counter[str]:
        """Number of dropped messages by kind of topic, since the last call."""
        with self._lock:
            found, self._drops = self._drops, Counter()
        return found

    def limited(self) -> dict[str, int]:
        """The devices over their budgets in the last minute, and their dropped messages since the start."""
        with self._lock:
            since = self._clock() - MINUTE
            return {device: account.dropped for device, account in self._accounts.items() if account.last > since}

    def news(self) -> list[str]:
        """A log line for every device with dropped messages, at most one a minute."""
        with self._lock:
            now = self._clock()
            lines = [(device, account.tell(now)) for device, account in self._accounts.items()]
        return [f"device {device!r} is {what}; see [limits]" for device, what in lines if what]

    def _account(self, device: str, now: float) -> Account:
        account = self._accounts.get(device)
        if account is None:
            account = self._accounts[device] = Account(self._buckets(now))
        return account

    def _buckets(self, now: float) -> dict[str, TokenBucket]:
        limits = self._limits
        chunks = AT_ONCE * limits.update_chunks
        cpu_s = max(limits.cpu_s_per_minute, AT_ONCE * limits.update_mb * CPU_S_PER_MB)
        return {
            "messages": TokenBucket(limits.messages_per_minute, now, burst=chunks + limits.messages_per_minute / PARTS),
            "bytes": TokenBucket(limits.bytes_per_minute, now, burst=chunks * PACKET + REPORT_BYTES),
            "reports": TokenBucket(limits.reports_per_minute, now, burst=limits.reports_per_minute / PARTS),
            "transfers": TokenBucket(limits.transfers_per_minute, now, burst=limits.transfers_per_minute / PARTS),
            "processor time": TokenBucket(limits.cpu_s_per_minute, now, burst=cpu_s),
        }

    def _admit_stranger(self, device: str, size: int, now: float) -> bool:
        if size > STRANGER_BYTES:
            return False
        own = self._stranger.get(device)
        if own is None:
            own = self._stranger[device] = TokenBucket(STRANGER, now)
            if len(self._stranger) > REMEMBERED:
                self._stranger.popitem(last=False)
        return own.take(1, now) and self._strangers.take(1, now)


def _processor_time() -> float:
    spent = os.times()
    return time.thread_time() + spent.children_user + spent.children_system + seconds_spent()
