"""`edgestill` commands as child processes with a log each: started, watched, and stopped by their process ids."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from core.errors import RoundError
from core.python_child import module_arguments

__all__ = ["Processes"]

STOP_S = 10.0
CONFIG_VARIABLES = ("EDGESTILL_AGENT_", "EDGESTILL_AGGREGATOR_", "EDGESTILL_BROKER_")


class Processes:
    """Named children that run in `folder` and write `NAME.log` there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start `edgestill ARGUMENTS`; what it says goes to the log, after what an earlier start said."""
        # the configurations are written for this fleet: what the user's shell says of another one must not reach it
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(CONFIG_VARIABLES)}
        env = {**inherited, "OMP_NUM_THREADS": "1", **(environment or {})}
        # the children run in another folder: let them find the packages where this process found them
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), env.get("PYTHONPATH", "")]))
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, *module_arguments("edgestill", *arguments)],
                cwd=self.folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is ours to hand on
            )

    def check(self) -> None:
        """Raise for a child that has ended with an error, with the last line of its log."""
        for name, process in self.running.items():
            if process.poll() not in (None, 0):
                raise RoundError(f"{name} ended with exit code {process.returncode}: {self.last_line(name)}")

    def last_line(self, name: str) -> str:
        """Of a child's log."""
        lines = (self.folder / f"{name}.log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def ended(self, name: str) -> bool:
        """Whether a child has ended."""
        return self.running[name].poll() is not None

    def kill(self, name: str) -> None:
        """End one child at once, as a power cut would."""
        self.running[name].kill()
        self.running[name].wait()

    def stop(self) -> None:
        """Ask all to end, the last started first; kill those that do not."""
        for process in reversed(self.running.values()):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        for process in self.running.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
