"""The newest instruction that the device followed, on disk: an older one is refused also after a restart."""

from __future__ import annotations

from core.crashpoints import reach
from edge_agent.protocol.events import Follow
from edge_agent.protocol.replay import Newest
from edge_agent.state.store import Store

__all__ = ["Following"]

RETRY_S = 5.0


class Following:
    """Stores the newest instruction; on a full disk the write is retried."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._unsaved: Follow | None = None  # not on the disk yet
        self.retry_at = 0.0

    def take(self, newest: Newest, *, forget: bool) -> None:
        """Store it now; with `forget`, the state of older epochs is removed."""
        owed = self._unsaved is not None and self._unsaved.forget
        self._unsaved = Follow(newest, forget or owed)
        self._save()

    def retry(self, now: float) -> None:
        """Retry a failed write when it is due."""
        if self._unsaved is not None and now >= self.retry_at:
            self.retry_at = now + RETRY_S
            self._save()

    def _save(self) -> None:
        if self._unsaved is None:
            return
        if self._unsaved.forget:
            self._store.forget_before(self._unsaved.newest.epoch)
            reach("agent-epoch-forgotten")
            self._unsaved = Follow(self._unsaved.newest)
        self._store.follow(self._unsaved.newest)
        self._unsaved = None
        reach("agent-followed")
