"""The agent's side of its training child: start, watch, stop, and describe how it ended."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from core.errors import ConfigError, DataError, DeviceError, ModelError, WireError
from core.processes.pipes import json_lines
from core.processes.process import environment, kill, send, signal_name, start_python
from core.processes.processor import processor_fault
from core.processes.python_child import module_arguments
from edge_agent.child.request import DISK_FULL, OUT_OF_MEMORY, Request

__all__ = ["Child", "Ended", "explain"]

#: Exit codes for which a retry is pointless.
FINAL = {error.exit_code for error in (ConfigError, DataError, WireError, ModelError, DeviceError)}
KILL_S = 5.0


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
        self.progress = 0, 0  # steps taken, and steps in all
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
                if said.get("event") == "training":
                    self.progress = int(said.get("step", 0)), int(said.get("total", 0))

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
