"""A thread per tracker that follows the records of a run, and keeps in a file how far it has come.

    with Following(targets, run, source, notes=Path("run/trackers.json"), every_s=2.0) as following:
        ...                        # following.wake() if there is a new record
        following.complete = True  # the run has all of its rounds

`source(n)` gives the next records after round n, and nothing if there are none; it is called by several threads. A
tracker that fails is a warning, once until it works again, and is tried again after 1, 2, 4, ... 60 s. When the block
ends it has `goodbye_s` seconds for what is missing; one that hangs is left behind then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread

import msgspec

from aggregator.tracking.records import RoundRecord, TrackedRun
from aggregator.tracking.targets import Target, Tracker
from core.files import read_regular, write_atomic

__all__ = ["NOTES", "Following", "Source"]

log = logging.getLogger("edgestill.trackers")
NOTES = "trackers.json"
FIRST_RETRY_S, LAST_RETRY_S = 1.0, 60.0
GOODBYE_S = 60.0  # a tracker that was opened just now may still be imported, or make its tables
MOST_NOTES = 2**20  # bytes
LONGEST = 200  # characters of a tracker's error
Source = Callable[[int], Sequence[RoundRecord]]


class _Note(msgspec.Struct, frozen=True):
    """How far a tracker has come."""

    token: str | None = None
    round: int = 0


class _Notes:
    """A note for each tracker; in a file if there is one."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._lock = path, Lock()
        self._notes: dict[str, _Note] = {}
        if path is not None:
            with suppress(OSError, msgspec.MsgspecError):  # without it, the run begins anew in its trackers
                self._notes = msgspec.json.decode(read_regular(path, MOST_NOTES), type=dict[str, _Note])

    def get(self, target: Target) -> _Note:
        """The note of a tracker; an empty one if there is none."""
        return self._notes.get(str(target), _Note())

    def put(self, target: Target, note: _Note) -> None:
        """Keep it."""
        with self._lock:
            self._notes[str(target)] = note
            if self._path is not None:
                write_atomic(self._path, msgspec.json.format(msgspec.json.encode(self._notes)) + b"\n")


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


class _Follower(Thread):
    """One tracker's thread."""

    def __init__(self, following: Following, target: Target) -> None:
        super().__init__(name=f"tracker {target}", daemon=True)
        self._following, self._target = following, target
        noted = following.notes.get(target)
        self._token, self.done = noted.token, noted.round
        self._tracker: Tracker | None = None
        self.new = Event()
        self._failures = 0

    def run(self) -> None:
        """Follow until the end."""
        ending = self._following.ending
        while True:
            self.new.clear()
            last = ending.is_set()  # asked before the records are: all of them are there then
            whole = self._pass()
            if last:
                break
            if whole:
                self.new.wait(self._following.every_s)
            else:
                ending.wait(min(FIRST_RETRY_S * 2.0 ** (self._failures - 1), LAST_RETRY_S))
        self._leave()

    def _pass(self) -> bool:
        """Write what is new; False if that failed."""
        try:
            tracker = self._tracker or self._open()
            while records := self._following.source(self.done):
                for record in records:
                    tracker.log(record)
                    self.done = record.round
                self._note()
        except Exception as error:  # a tracker may raise anything
            self._failed(error)
            return False
        if self._failures:
            log.info(
                "tracker %s: works again, and is up to date with round %d",
                self._target,
                self.done,
                extra={"round": self.done},
            )
        self._failures = 0
        return True

    def _open(self) -> Tracker:
        tracker = self._target.open(self._following.run, self._token)
        self._token, self._tracker = tracker.token, tracker
        self._note()
        return tracker

    def _note(self) -> None:
        self._following.notes.put(self._target, _Note(self._token, self.done))

    def _failed(self, error: Exception) -> None:
        if not self._failures:
            what = f"round {self.done + 1} is not written yet, and will be tried again"
            self._following.warn(f"tracker {self._target}: {what}: {_one_line(error)}")
        self._failures += 1
        tracker, self._tracker = self._tracker, None
        if tracker is not None:
            with suppress(Exception):
                tracker.close(complete=False)

    def _leave(self) -> None:
        try:
            if self._tracker is not None:
                self._tracker.close(complete=self._following.complete)
        except Exception as error:
            self._following.warn(f"tracker {self._target}: its run could not be ended: {_one_line(error)}")


class Following:
    """All trackers of a run; `every_s` is how often they look for records by themselves, None: only when woken."""

    def __init__(
        self,
        targets: Sequence[Target],
        run: TrackedRun,
        source: Source,
        *,
        notes: Path | None = None,
        every_s: float | None = None,
        goodbye_s: float = GOODBYE_S,
        warn: Callable[[str], None] = log.warning,
    ) -> None:
        self.run, self.source, self.every_s, self.warn = run, source, every_s, warn
        self.notes, self._goodbye_s = _Notes(notes), goodbye_s
        self.ending, self.complete = Event(), False
        self._followers = [_Follower(self, target) for target in targets]

    def __enter__(self) -> Following:
        for follower in self._followers:
            follower.start()
        return self

    def wake(self) -> None:
        """There is a new record."""
        for follower in self._followers:
            follower.new.set()

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        self.wake()
        until = time.monotonic() + self._goodbye_s
        for follower in self._followers:
            follower.join(max(until - time.monotonic(), 0.0))
            if follower.is_alive():
                self.warn(f"{follower.name} does not answer, and has the rounds up to {follower.done} only")
