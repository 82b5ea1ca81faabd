"""A real agent process that trains nothing: `_echo_agent.py CONFIG child|inline`, run by round_trip.py.

Link, protocol, store and disk are the agent's own. The update is created by a child process, as in training, or, with
`inline`, by the agent itself: the difference is the cost of starting a Python process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import _echo

from core.logs import setup_logging
from core.processes.process import environment
from edge_agent.child.request import Request
from edge_agent.child.supervisor import Ended
from edge_agent.config import read_agent_config
from edge_agent.host.signals import stop_on_signals
from edge_agent.service import Service

CHILD = Path(__file__).with_name("_echo_child.py")


class EchoChild:
    """A process that echoes; the methods of `edge_agent.child.supervisor.Child`."""

    def __init__(
        self, request: Request, *, max_seconds: float, now: float, wake: Callable[[], None], attempt: int = 1
    ) -> None:
        self.key, self.warnings, self._said, self.computes_on = request.key, list[str](), b"", ""
        command = [sys.executable, str(CHILD)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(threads=request.threads, crash_points=attempt == 1),
        )
        assert self._process.stdin is not None
        self._process.stdin.write(request.encode())
        self._process.stdin.close()
        self._reader = threading.Thread(target=self._listen, args=(wake,), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self, now: float) -> Ended | None:
        if self._reader.is_alive():
            return None
        facts = json.loads(self._said.splitlines()[-1]) if self._process.returncode == 0 else None
        if facts is None:
            return Ended(self.key, reason=f"the echo ended with code {self._process.returncode}")
        return Ended(self.key, {name: float(value) for name, value in facts.items() if name != "event"})

    def kill(self) -> None:
        self._process.kill()
        self._reader.join()

    def _listen(self, wake: Callable[[], None]) -> None:
        assert self._process.stdout is not None
        self._said = self._process.stdout.read()
        self._process.wait()
        wake()


class EchoInline:
    """No process: the echo is created at once, on the agent's thread."""

    pid = 0

    def __init__(self, request: Request, *, wake: Callable[[], None], **_: object) -> None:
        self.key, self.warnings, self.computes_on = request.key, list[str](), ""
        self._facts = _echo.run(request)
        wake()

    def poll(self, now: float) -> Ended:
        return Ended(self.key, self._facts)

    def kill(self) -> None:
        pass


def main(path: str, how: str) -> int:
    config = read_agent_config(path)
    setup_logging(config.log.format, config.log.level)
    service = Service(config, make_child=EchoChild if how == "child" else EchoInline)  # type: ignore[arg-type]
    stop_on_signals(service.stop)
    return service.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
