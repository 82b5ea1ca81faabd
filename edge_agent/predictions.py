"""Requests for predictions that arrive over MQTT: bounded in number and size, answered by a child process.

The child (`edge_agent/predict/worker.py`) is started for the first request, and ends after IDLE_S seconds without one,
so an agent that nobody asks holds no NumPy. One request is worked on at a time, WAITING more may wait; others, those
beyond the rate, and those that are too large are dropped, with one log line a minute.
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from core.processes.pipes import read_exactly
from core.processes.process import Child, environment, kill, send, start_python
from core.processes.python_child import module_arguments
from edge_agent.predict.frames import LENGTH, MAX_ANSWER, MAX_REQUEST, frame

__all__ = ["Predictions"]

log = logging.getLogger("edgestill.agent")
WAITING = 4
IDLE_S = 60.0
ANSWER_S = 60.0  # the first request of a child waits for its imports: 20 s on the smallest boards
REPORT_S = 60.0


class Predictions:
    """The requests of one device. Call `poll` whenever woken; nothing here blocks."""

    def __init__(self, state_dir: Path, *, per_minute: int, wake: Callable[[], None]) -> None:
        self._state_dir, self._per_minute, self._wake = state_dir, per_minute, wake
        self._tokens, self._filled_at = float(per_minute), 0.0
        self._waiting: deque[bytes] = deque()
        self._child: Child | None = None
        self._answers: SimpleQueue[bytes | None] = SimpleQueue()  # of this child; None: it has ended
        self._asked_at: float | None = None  # when the request that the child works on was sent
        self._idle_at = 0.0
        self._dropped, self._report_at = 0, 0.0

    @property
    def busy(self) -> bool:
        """Whether there is a child to watch, or something to report."""
        return self._child is not None or bool(self._dropped)

    def ask(self, payload: bytes, now: float) -> None:
        """Take a request, or drop it."""
        if not 0 < len(payload) <= MAX_REQUEST or len(self._waiting) >= WAITING or not self._within_rate(now):
            self._dropped += 1
            return
        self._waiting.append(payload)
        self._next(now)

    def poll(self, now: float) -> list[bytes]:
        """The answers that have arrived; starts, replaces and ends the child."""
        answers = self._arrived(now)
        if self._asked_at is not None and now - self._asked_at > ANSWER_S:
            log.warning("predict: no answer for %g s; the request is dropped", ANSWER_S)
            self._end(now)
        if self._child is not None and self._asked_at is None and not self._waiting and now - self._idle_at > IDLE_S:
            self._end(now)
        self._next(now)
        self._report(now)
        return answers

    def kill(self) -> None:
        """End the child, if there is one."""
        child, self._child = self._child, None
        if child is not None:
            kill(child)

    def _next(self, now: float) -> None:
        """Hand the next request to the child."""
        if not self._waiting or self._asked_at is not None:
            return
        try:
            child = self._running()
        except OSError as error:
            log.warning("predict: the child cannot start: %s; the request is dropped", error.strerror or error)
            self._waiting.popleft()
            return
        self._asked_at = now
        # a pipe may hold less than a request, and the child may still be importing: not on the agent's thread
        threading.Thread(target=send, args=(child, frame(self._waiting.popleft())), daemon=True).start()

    def _running(self) -> Child:
        if self._child is None:
            command = module_arguments("edge_agent.predict.worker", str(self._state_dir.resolve()), str(os.getpid()))
            self._child = start_python(command, env=environment(threads=1), stderr=subprocess.DEVNULL, session=False)
            self._answers = SimpleQueue()
            reader = threading.Thread(
                target=_read, args=(self._child, self._answers, self._wake), name="predictions", daemon=True
            )
            reader.start()
        return self._child

    def _arrived(self, now: float) -> list[bytes]:
        answers: list[bytes] = []
        while True:
            try:
                answer = self._answers.get_nowait()
            except Empty:
                return answers
            if answer is not None:
                answers.append(answer)
                self._asked_at, self._idle_at = None, now
            elif self._child is not None:
                log.warning("predict: the child has ended over a request, which is dropped")
                self._end(now)

    def _end(self, now: float) -> None:
        self.kill()
        self._asked_at, self._idle_at = None, now
        self._answers = SimpleQueue()

    def _within_rate(self, now: float) -> bool:
        """A token bucket: as many at once as in a minute."""
        self._tokens = min(self._per_minute, self._tokens + (now - self._filled_at) * self._per_minute / 60)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _report(self, now: float) -> None:
        if self._dropped and now >= self._report_at:
            log.warning("predict: %d requests dropped: too many, or too large", self._dropped)
            self._dropped, self._report_at = 0, now + REPORT_S


def _read(child: Child, answers: SimpleQueue[bytes | None], wake: Callable[[], None]) -> None:
    """Answers of the child, until it ends; closes its pipes, which no other thread may do while this one reads."""
    assert child.stdout is not None
    assert child.stdin is not None
    with suppress(EOFError, OSError):
        while True:
            size = LENGTH.unpack(read_exactly(child.stdout.fileno(), LENGTH.size))[0]
            if size > MAX_ANSWER:
                kill(child)
                break
            answers.put(bytes(read_exactly(child.stdout.fileno(), size)))
            wake()
    answers.put(None)
    for pipe in (child.stdout, child.stdin):
        with suppress(OSError):  # unflushed data has no reader
            pipe.close()
    wake()
