"""The service's side of the worker process: send a request, later take the answer, and handle its death."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any

from core.processes.pipes import json_lines
from core.processes.process import Child, environment, how_it_ended, kill, send, start_python
from core.processes.python_child import module_arguments

__all__ = ["WorkerProcess"]

log = logging.getLogger("edgestill.aggregator")
TRIES = 2  # of one request; then the caller must examine why


class WorkerProcess:
    """Starts `python -m aggregator.worker` on demand, restarts it if it died, and keeps it for the next request.

    Importing torch takes a second or two: `warm` starts the process while the devices still train. An unanswered
    request is sent again to the next process, once: its state is in the journal, not in the process.
    """

    def __init__(self, setup: Mapping[str, Any], on_answer: Callable[[], None]) -> None:
        self._setup, self._on_answer = setup, on_answer
        self._process: Child | None = None
        self._answers: SimpleQueue[tuple[int, dict[str, Any] | None]] = SimpleQueue()
        self._asked: dict[str, Any] | None = None
        self._sent = False  # whether the request was sent to a living process
        self._starts = 0
        self.deaths = 0  # in a row

    @property
    def busy(self) -> bool:
        """Whether an answer is outstanding."""
        return self._asked is not None

    def use(self, setup: Mapping[str, Any]) -> None:
        """Another setup; the next request is sent to a new process."""
        assert not self.busy
        self._setup = setup
        self.close()

    def warm(self) -> None:
        """Start a process in advance."""
        if self._process is None:
            self._start()

    def ask(self, request: dict[str, Any]) -> None:
        """Send a request; if no process can be started now, `take` tries again."""
        assert self._asked is None, "one request at a time"
        self._asked, self._sent, self.deaths = request, False, 0
        self._deliver()

    def take(self) -> dict[str, Any] | None:
        """The answer, once available; a process that died is replaced and the request sent again."""
        while True:
            try:
                start, answer = self._answers.get_nowait()
            except Empty:
                break
            if start != self._starts:
                continue  # from a replaced process
            if answer is None:
                if self._died():
                    return {"error": f"the worker process died {TRIES} times in a row; its words are in the log above"}
            elif answer.get("task") != "setup":
                self._asked, self.deaths = None, 0
                return answer
        if self._asked is not None and not self._sent:
            self._deliver()
        return None

    def cancel(self) -> None:
        """Cancel the request and kill the process."""
        self._asked = None
        self.close()

    def close(self) -> None:
        """Kill the process; its work is repeated after the next start."""
        process, self._process = self._process, None
        self._starts += 1
        if process is not None:
            kill(process)

    def _deliver(self) -> None:
        assert self._asked is not None
        try:
            self.warm()
        except OSError as error:  # no memory, process id or descriptor available: temporary
            log.error("the worker process cannot be started: %s; it is tried again", error)
            return
        self._sent = True
        self._send(self._asked)

    def _start(self) -> None:
        # a crash point in the worker applies to the first process only
        env = environment(crash_points=not self._starts)
        self._starts += 1
        self._process = start_python(module_arguments("aggregator.worker"), env=env)
        threading.Thread(target=self._listen, args=(self._process, self._starts), daemon=True).start()
        self._send(dict(self._setup))

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process is not None
        send(self._process, json.dumps(message).encode() + b"\n")  # if it has died, the listener reports it

    def _listen(self, process: Child, start: int) -> None:
        assert process.stdout is not None
        for answer in json_lines(process.stdout):
            self._answers.put((start, answer))
            self._on_answer()
        process.wait()
        self._answers.put((start, None))
        self._on_answer()

    def _died(self) -> bool:
        """Restart; True if it has failed too often."""
        code = self._process.poll() if self._process else None
        self._process = None
        self.deaths += 1
        log.warning("the worker process %s%s", how_it_ended(code), "; starting it again" if self.busy else "")
        if self._asked is None:
            return False
        if self.deaths >= TRIES:
            self._asked = None
            return True
        self._sent = False  # sent again by `take`
        return False
