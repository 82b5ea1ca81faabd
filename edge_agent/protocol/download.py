"""The download of one published model, without I/O: which chunks to subscribe to.

Chunks are retained, so a subscription to its exact topic delivers a chunk, and the broker never queues more than that:
at most 20 are subscribed to at a time, and received ones are unsubscribed from. Chunk 0 has the number of chunks.
Without progress for 5 s, subscribe again, then after 10 s, 20 s, 40 s, 60 s.
"""

from __future__ import annotations

from edge_agent.protocol.events import CheckModel, Subscribe, Unsubscribe
from wire.ranges import Ranges, expand

__all__ = ["Download"]

WINDOW = 20
STALL_S, MAX_STALL_S = 5.0, 60.0


class Download:
    """The device's side of the download of one model."""

    def __init__(self, digest: str) -> None:
        self.digest = digest
        self._missing: set[int] | None = None  # None: the number of chunks is unknown
        self._count = 0
        self._asked: set[int] = set()
        self._wait = STALL_S
        self._failures = 0
        self._due = float("inf")

    def resumed(self, count: int | None, missing: Ranges, now: float, online: bool) -> list[Subscribe | CheckModel]:
        """Restore from the chunks that are already on disk."""
        self._missing = None if count is None else set(expand(missing, count))
        self._count = count or 0
        if self._missing is not None and not self._missing:
            return [CheckModel(self.digest)]
        return [*self.connected(now)] if online else []

    def connected(self, now: float) -> list[Subscribe]:
        """Connected: all earlier subscriptions are gone."""
        self._asked.clear()
        self._wait = STALL_S
        return self._ask(now)

    def stored(self, n: int, count: int, now: float) -> list[Subscribe | Unsubscribe | CheckModel]:
        """Chunk `n` is on disk."""
        if self._missing is None:
            self._missing = set(range(count))
            self._count = count
        if n not in self._missing:
            return []
        self._missing.remove(n)
        self._asked.discard(n)
        self._wait, self._due = STALL_S, now + STALL_S
        actions: list[Subscribe | Unsubscribe | CheckModel] = [Unsubscribe(self.digest, (n,))]
        if not self._missing:
            self._due = float("inf")
            return [*actions, CheckModel(self.digest)]
        if len(self._asked) <= WINDOW // 2:
            actions += self._ask(now)
        return actions

    def failed(self, now: float) -> None:
        """The stored chunks were invalid and are deleted; start over after a while."""
        self._missing = None
        self._asked.clear()
        self._due = now + min(STALL_S * 2**self._failures, MAX_STALL_S)
        self._failures += 1

    def tick(self, now: float) -> list[Subscribe]:
        """Subscribe again after a time without progress: the broker then resends the retained chunks."""
        if now < self._due:
            return []
        self._wait = min(2 * self._wait, MAX_STALL_S)
        self._asked.clear()
        return self._ask(now)

    def dropped(self) -> list[Unsubscribe]:
        """The model is no longer needed."""
        self._due = float("inf")
        return [Unsubscribe(self.digest, tuple(sorted(self._asked)))] if self._asked else []

    @property
    def progress(self) -> tuple[int, int]:
        """Chunks on disk, and all of them; 0 if their number is not known yet."""
        return (0, 0) if self._missing is None else (self._count - len(self._missing), self._count)

    @property
    def due(self) -> float:
        """When to call `tick`."""
        return self._due

    def _ask(self, now: float) -> list[Subscribe]:
        self._due = now + self._wait
        wanted = {0} if self._missing is None else self._missing
        numbers = sorted(wanted - self._asked)[: WINDOW - len(self._asked)]
        self._asked.update(numbers)
        return [Subscribe(self.digest, tuple(numbers))] if numbers else []
