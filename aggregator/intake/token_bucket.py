"""A token bucket, and the buckets of one device; time is an argument."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["MINUTE", "Account", "TokenBucket"]

MINUTE = 60.0


class TokenBucket:
    """`per_minute` tokens a minute, of which `burst` are saved up at most, by default those of one minute.

    Unless it is empty it gives all that is asked for, and is owed the rest.
    """

    __slots__ = ("_at", "_level", "burst", "per_minute")

    def __init__(self, per_minute: float, now: float, *, burst: float | None = None) -> None:
        self.per_minute, self.burst = per_minute, per_minute if burst is None else burst
        self._level, self._at = self.burst, now

    def level(self, now: float) -> float:
        """Tokens that are there; below zero: owed."""
        return min(self.burst, self._level + max(0.0, now - self._at) * self.per_minute / MINUTE)

    def spend(self, amount: float, now: float) -> None:
        """Take tokens, whether they are there or not."""
        self._level, self._at = self.level(now) - amount, max(now, self._at)

    def take(self, amount: float, now: float) -> bool:
        """Take tokens unless it is empty."""
        if self.level(now) <= 0:
            return False
        self.spend(amount, now)
        return True


@dataclass(slots=True)
class Account:
    """One device: a bucket of each kind, and what was dropped because one was empty."""

    buckets: Mapping[str, TokenBucket]
    dropped: int = 0  # messages, since the start
    news: Counter[str] = field(default_factory=Counter)  # of these, by kind, what the log was not told yet
    last: float = -MINUTE  # when something was dropped
    told: float = -MINUTE  # when the log was told

    def take(self, now: float, amounts: Mapping[str, float]) -> bool:
        """Take tokens of several kinds, or, if one of the buckets is empty, none, and count what is dropped."""
        for kind in amounts:
            if self.buckets[kind].level(now) <= 0:
                self.drop(kind, 1, now)
                return False
        for kind, amount in amounts.items():
            if amount:
                self.buckets[kind].spend(amount, now)
        return True

    def drop(self, kind: str, count: int, now: float) -> None:
        """So many messages were dropped."""
        self.dropped += count
        self.news[kind] += count
        self.last = now

    def tell(self, now: float) -> str:
        """What was dropped, for the log; nothing if that is nothing, or if the log was told within a minute."""
        if not self.news or now - self.told < MINUTE:
            return ""
        what = f"over its budget ({', '.join(self.news)}): {self.news.total()} messages dropped unread"
        self.news.clear()
        self.told = now
        return what
