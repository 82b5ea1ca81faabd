"""The agent's side of its samples: a helper process surveys them, at the start and whenever they may have changed.

The helper is a process because NumPy and Pillow would stay in the agent's memory. It is started when the times of the
folder, its subfolders or the file say that something changed, but at most every `[data] refresh_s` seconds, and never
for more than a twentieth of the time. If it fails, the agent goes on with what it knew, and tries again later: no round
depends on it.
"""

from __future__ import annotations

import logging
import os
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from core.errors import ConfigError, DataError
from core.processes.process import Child as Process
from core.processes.process import end, environment, start_python
from core.processes.processor import processor_fault
from core.processes.python_child import module_arguments
from edge_agent.child.supervisor import explain
from edge_agent.samples.spec import TASK, Asked, SourceSpec
from edge_agent.samples.survey import Survey, unreadable

__all__ = ["SampleWatch"]

log = logging.getLogger("edgestill.agent")

HELPER_S = 30.0  # NumPy alone takes 10 s to import on the smallest boards
CHECK_S = 15.0  # of it for new files; the rest waits for the next time
AGAIN_S, MAX_AGAIN_S = 2.0, 2000.0
SOON_S = 3.0  # after a survey that left something out, such as a file that was being written
SHARE = 20  # of the time at most 1 / SHARE goes to surveys
STAT_S = 2.0  # between two looks at times
POLL_S = 0.02  # with less, `communicate` times out before it reads
MOST_STATS = 1000  # subfolders whose times are looked at


class SampleWatch:
    """The samples of one agent."""

    def __init__(self, spec: SourceSpec, state_dir: Path, refresh_s: float) -> None:
        self._spec, self._state, self._refresh = spec, state_dir, refresh_s
        self._wait = AGAIN_S
        self._due = self._until = float("inf")  # of the next survey, and of the one that runs
        self._begun = self._cost = 0.0
        self._looked = 0.0
        self._seen: tuple[object, ...] = ()
        self._process: Process | None = None
        self._question: bytes | None = None
        self._expires = spec.max_age_s is not None

    def wait(self) -> Survey | None:
        """Survey now; None if the helper was killed, or hangs."""
        self._start()
        return self._finish(HELPER_S)

    def poll(self, now: float) -> Survey | None:
        """A survey, if one was due and is done; hardly blocks."""
        if self._process is None:
            if now - self._looked >= STAT_S:
                self._notice(now)
            if now >= self._due:
                self._start()
        return self._finish(POLL_S)

    @property
    def busy(self) -> bool:
        """Whether the helper runs, or soon will."""
        return self._process is not None or self._due < time.monotonic() + 2 * AGAIN_S

    def kill(self) -> None:
        """Kill the helper, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            end(process)

    def _notice(self, now: float) -> None:
        """Have a survey made soon, if the samples changed since the last began."""
        self._looked = now
        soonest = self._begun + max(self._refresh, SHARE * self._cost)
        if self._times() != self._seen:
            new_task = bool(self._seen) and self._seen[0] != self._task_time()
            self._due = min(self._due, now if new_task else max(soonest, now))
        elif self._expires or self._spec.kind == "python":  # nothing tells that samples expire, or what a loader reads
            self._due = min(self._due, soonest + 10 * self._refresh)

    def _times(self) -> tuple[object, ...]:
        root = Path(self._spec.path)
        return (self._task_time(), *(_time(path) for path in _watched(root, self._spec.labels)))

    def _task_time(self) -> object:
        return _time(self._state / TASK)

    def _start(self) -> None:
        self._due, self._begun = float("inf"), time.monotonic()
        self._until, self._seen = self._begun + HELPER_S, self._times()
        asked = Asked(spec=self._spec, state_dir=str(self._state.resolve()), seconds=CHECK_S)
        try:
            self._process = start_python(
                module_arguments("edge_agent.samples.helper"),
                env=environment(threads=1),
                stderr=subprocess.PIPE,
                session=False,
            )
        except OSError as error:
            self._later(f"cannot start: {error.strerror or error}")
            return
        self._question = msgspec.json.encode(asked)

    def _finish(self, patience: float) -> Survey | None:
        if self._process is None:
            return None
        question, self._question = self._question, None
        try:
            output, errors = self._process.communicate(question, timeout=patience)
        except subprocess.TimeoutExpired:
            if time.monotonic() < self._until:
                return None
            self.kill()
            self._later(f"no answer for {HELPER_S:g} s")
            return None
        code, self._process = self._process.returncode, None
        self._cost = time.monotonic() - self._begun
        if code in (DataError.exit_code, ConfigError.exit_code):
            return unreadable(self._spec, output.decode(errors="replace"))
        if code:
            told = errors.decode(errors="replace")
            fault = processor_fault(code, told)  # its message has several lines
            self._later(fault or explain(code, (told.strip().splitlines() or [""])[-1], "the helper"))
            return None
        return self._read(output)

    def _read(self, output: bytes) -> Survey | None:
        try:
            survey = msgspec.json.decode(output, type=Survey)
        except (ValueError, msgspec.MsgspecError):
            self._later("its answer makes no sense")
            return None
        self._wait = AGAIN_S
        if survey.writing or survey.unchecked:
            self._due = time.monotonic() + SOON_S
        return survey

    def _later(self, why: str) -> None:
        self._due = time.monotonic() + self._wait
        log.warning("%s: the samples are not counted: %s; tried again in %g s", self._spec.path, why, self._wait)
        self._wait = min(10 * self._wait, MAX_AGAIN_S)


def _watched(root: Path, labels: str) -> Iterable[Path]:
    """What changes its time when samples come, go or are labelled."""
    yield root
    yield root.with_name(root.name + ".label")
    if root.is_dir():
        yield root / labels
        try:
            with os.scandir(root) as found:
                inside = sorted(entry.path for entry in found if entry.is_dir() or entry.name.endswith(".csv"))
        except OSError:
            return
        yield from map(Path, inside[:MOST_STATS])


def _time(path: Path) -> object:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size
