"""Logins of this process: a cookie each, and a bound on how often a token may be tried."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Session", "Sessions"]

LASTS_S = 12 * 3600.0
MOST = 100  # logins; the oldest ends
TRIES, WINDOW_S = 10, 60.0  # failed ones, of everybody together


@dataclass(frozen=True, slots=True)
class Session:
    """One login; `csrf` stands in every form that it is given."""

    name: str  # the cookie
    csrf: str
    ends: float
    who: str  # for the audit log


class Sessions:
    """Open logins by cookie."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: dict[str, Session] = {}
        self._failed: list[float] = []

    def may_try(self) -> bool:
        """Whether another token may be tried now."""
        now = self._clock()
        self._failed = [at for at in self._failed if now - at < WINDOW_S]
        return len(self._failed) < TRIES

    def failed(self) -> None:
        """A token was wrong."""
        self._failed.append(self._clock())

    def begin(self, who: str) -> Session:
        """A login with the right token."""
        session = Session(secrets.token_urlsafe(32), secrets.token_urlsafe(32), self._clock() + LASTS_S, who)
        while len(self._open) >= MOST:
            del self._open[next(iter(self._open))]
        self._open[session.name] = session
        return session

    def find(self, cookie: str | None) -> Session | None:
        """The login of a cookie, if it has not ended."""
        session = self._open.get(cookie or "")
        if session is not None and session.ends < self._clock():
            del self._open[session.name]
            return None
        return session

    def end(self, session: Session) -> None:
        """Log out."""
        self._open.pop(session.name, None)
