"""The agent's side of its training child: start, watch, stop, and describe how it ended."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from core.errors import ConfigError, DataError, DeviceError, ModelError, WireError
from core.processes.pipes import json_lines
from core.processes.process import Child as Process
from core.processes.process import end, environment, kill, send, signal_name, start_python
from core.processes.processor import processor_fault
from core.processes.python_child import module_arguments
from edge_agent.child.request import DISK_FULL, OUT_OF_MEMORY, Request

__all__ = ["Child", "Ended", "LabelCounter", "explain"]

log = logging.getLogger("edgestill.agent")

#: Exit codes for which a retry is pointless.
FINAL = {error.exit_code for error in (ConfigError, DataError, WireError, ModelError, DeviceError)}
KILL_S = 5.0
COUNT_S = 30.0  # NumPy alone takes 10 s to import on the smallest boards
COUNT_AGAIN_S, MAX_COUNT_AGAIN_S = 2.0, 2000.0
POLL_S = 0.02  # with less, `communicate` times out before it reads


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a child: success with metrics, or failure with a reason."""

    key: str
    facts: dict[str, float] | None = None
    reason: str = ""
    again: bool = False


class Child:
    """One child. Call `poll` whenever woken; it never blocks."""

    def __init__(
        self, request: Request, *, max_seconds: float, now: float, wake: Callable[[], None], attempt: int = 1
    ) -> None:
        self.key = request.key
        self.warnings: list[str] = []
        self.computes_on = ""  # the device that it trains on, once it has said so
        self._max_seconds = max_seconds
        self._alive_at = now
        self._said: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._last: dict[str, Any] = {"event": "starting"}
        self._errors: deque[str] = deque(maxlen=20)
        self._process = start_python(
            module_arguments("edge_agent.child"),
            # a crash point in the child applies to its first attempt
            env=environment(threads=request.threads, crash_points=attempt == 1),
            stderr=subprocess.PIPE,
            session=False,
        )
        self._readers = [
            threading.Thread(target=self._read_lines, args=(wake,), name="child's words", daemon=True),
            threading.Thread(target=self._read_errors, name="child's errors", daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        send(self._process, request.encode(), close=True)  # if it has already exited, `poll` reports how

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def poll(self, now: float) -> Ended | None:
        """Its result, or None while it runs; kills it if it has made no progress for too long."""
        self._listen(now)
        code = self._process.poll()
        if code is None:
            if now - self._alive_at < self._max_seconds:
                return None
            self.kill()
            doing = self._last.get("event")
            reason = f"the training child hung: no progress for {self._max_seconds:g} s while {doing}; killed"
            return Ended(self.key, reason=reason, again=True)
        self._join()
        self._listen(now)
        if code == 0 and self._last.get("event") == "done":
            metrics = {name: float(value) for name, value in self._last.items() if name != "event"}
            return Ended(self.key, metrics)
        text = self._last.get("text") or (self._errors[-1] if self._errors else "")
        fault = processor_fault(code, text)
        return Ended(self.key, reason=explain(code, text), again=code not in FINAL and not fault)

    def kill(self) -> None:
        """Kill it; work that is not committed to the outbox is lost."""
        kill(self._process, patience=KILL_S)
        self._join()

    def _listen(self, now: float) -> None:
        while True:
            try:
                said = self._said.get_nowait()
            except Empty:
                return
            self._alive_at = now
            if said.get("event") == "warning":
                self.warnings.append(str(said.get("text")))
            elif said.get("event") == "computing":
                self.computes_on = str(said.get("device"))[:100]
            else:
                self._last = said

    def _join(self) -> None:
        for reader in self._readers:
            reader.join(KILL_S)

    def _read_lines(self, wake: Callable[[], None]) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for said in json_lines(lines):
                self._said.put(said)
                wake()
        self._process.wait()
        wake()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                text = line.decode(errors="replace").strip()
                if text:
                    self._errors.append(text)


def explain(code: int, text: str, who: str = "the training child") -> str:
    """An exit code in words."""
    if fault := processor_fault(code, text):
        return fault
    if code < 0:
        guess = "; did the system run out of memory?" if -code == signal.SIGKILL else ""
        return f"{who} was killed by {signal_name(-code)}{guess}{f' ({text})' if text else ''}"
    if code in (OUT_OF_MEMORY, DISK_FULL) or code in FINAL:
        return text or f"{who} ended with exit code {code}"
    return f"{who} failed with exit code {code}{f': {text}' if text else ''}"


class LabelCounter:
    """Counts the examples per class in a separate process: NumPy would stay in the agent's memory indefinitely.

    If that process fails, the agent continues without the counts, and retries after a while: they inform the aggregator
    of the number of examples, and no round depends on them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wait = COUNT_AGAIN_S
        self._again = self._until = float("inf")
        self._process: Process | None = None

    def wait(self) -> tuple[int, ...] | None:
        """Count now; None if the process was killed, or hangs. `DataError` if the samples cannot be read."""
        self._start()
        return self._finish(COUNT_S)

    def poll(self, now: float) -> tuple[int, ...] | None:
        """The counts, if they were missing and are available now; hardly blocks."""
        if now >= self._again:
            self._start()
        try:
            return self._finish(POLL_S)
        except DataError as error:
            log.warning("%s", error)  # training reports it again while the problem persists
            return None

    @property
    def busy(self) -> bool:
        """Whether the process runs, or soon will."""
        return self._process is not None or self._again < time.monotonic() + 2 * COUNT_AGAIN_S

    def kill(self) -> None:
        """Kill the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            end(process)

    def _start(self) -> None:
        command = module_arguments("edge_agent.training.samples", str(self._path))
        self._again, self._until = float("inf"), time.monotonic() + COUNT_S
        try:
            env = environment(threads=None)
            self._process = start_python(command, env=env, stderr=subprocess.PIPE, session=False)
        except OSError as error:
            self._later(f"cannot start: {error.strerror or error}")

    def _finish(self, patience: float) -> tuple[int, ...] | None:
        if self._process is None:
            return None
        try:
            output, errors = (said.decode(errors="replace") for said in self._process.communicate(timeout=patience))
        except subprocess.TimeoutExpired:
            if time.monotonic() < self._until:
                return None
            self.kill()
            self._later(f"no answer for {COUNT_S:g} s")
            return None
        code, self._process = self._process.returncode, None
        if code == DataError.exit_code:
            raise DataError(output)
        if code:
            fault = processor_fault(code, errors)  # its message has several lines
            self._later(fault or explain(code, (errors.strip().splitlines() or [""])[-1], "the helper"))
            return None
        try:
            return tuple(int(count) for count in json.loads(output))
        except (ValueError, TypeError):
            self._later("its answer makes no sense")
            return None

    def _later(self, why: str) -> None:
        self._again = time.monotonic() + self._wait
        log.warning("%s: the samples are not counted: %s; tried again in %g s", self._path, why, self._wait)
        self._wait = min(10 * self._wait, MAX_COUNT_AGAIN_S)
