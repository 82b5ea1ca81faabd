"""A token bucket, and the buckets of one device; time is an argument."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["MINUTE", "Account", "TokenBucket"]

MINUTE = 60.0


class TokenBucket:
    """Refilled with `per_minute` tokens a minute, up to `burst`, by default those of one minute.

    Unless it is empty, it grants any request, and may go into debt.
    """

    __slots__ = ("_at", "_level", "burst", "per_minute")

    def __init__(self, per_minute: float, now: float, *, burst: float | None = None) -> None:
        self.per_minute, self.burst = per_minute, per_minute if burst is None else burst
        self._level, self._at = self.burst, now

    def level(self, now: float) -> float:
        """Available tokens; negative: debt."""
        return min(self.burst, self._level + max(0.0, now - self._at) * self.per_minute / MINUTE)

    def spend(self, amount: float, now: float) -> None:
        """Take tokens, even into debt."""
        self._level, self._at = self.level(now) - amount, max(now, self._at)

    def take(self, amount: float, now: float) -> bool:
        """Take tokens unless it is empty."""
        if self.level(now) <= 0:
            return False
        self.spend(amount, now)
        return True


@dataclass(slots=True)
class Account:
    """One device: a bucket of each kind, and counts of messages dropped because one was empty."""

    buckets: Mapping[str, TokenBucket]
    dropped: int = 0  # messages, since the start
    news: Counter[str] = field(default_factory=Counter)  # of these, not logged yet, by kind
    last: float = -MINUTE  # time of the last drop
    logged: float = -MINUTE  # time of the last log line

    def take(self, now: float, amounts: Mapping[str, float]) -> bool:
        """Take tokens of several kinds or, if one of the buckets is empty, none, and count the drop."""
        for kind in amounts:
            if self.buckets[kind].level(now) <= 0:
                self.drop(kind, 1, now)
                return False
        for kind, amount in amounts.items():
            if amount:
                self.buckets[kind].spend(amount, now)
        return True

    def drop(self, kind: str, count: int, now: float) -> None:
        """Count dropped messages."""
        self.dropped += count
        self.news[kind] += count
        self.last = now

    def tell(self, now: float) -> str:
        """A description of the dropped messages for the log; empty if there are none, or within a minute of the
        last."""
        if not self.news or now - self.logged < MINUTE:
            return ""
        what = f"over its budget ({', '.join(self.news)}): {self.news.total()} messages dropped unread"
        self.news.clear()
        self.logged = now
        return what
