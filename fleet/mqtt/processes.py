"""`edgestill` commands as child processes, each with a log: started, watched, and stopped by process id."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from core.errors import RoundError
from core.processes.process import Child, end, end_all, environment, how_it_ended, last_line, start_python
from core.processes.python_child import module_arguments

__all__ = ["Processes"]

STOP_S = 10.0
CONFIG_VARIABLES = ("EDGESTILL_AGENT_", "EDGESTILL_AGGREGATOR_", "EDGESTILL_BROKER_")


class Processes:
    """Named children that run in `folder` and write `NAME.log` there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, Child] = {}

    def start(self, name: str, arguments: Sequence[str], more: Mapping[str, str] | None = None) -> None:
        """Start `edgestill ARGUMENTS`; its output is appended to the log."""
        # the configurations are complete: variables of the user's shell must not override them
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(CONFIG_VARIABLES)}
        self.running[name] = start_python(
            module_arguments("edgestill", *arguments),
            env=environment({**inherited, **(more or {})}),
            log=self.folder / f"{name}.log",
            append=True,
            cwd=self.folder,
        )

    def check(self) -> None:
        """Raise if a child has exited with an error, with the last line of its log."""
        for name, process in self.running.items():
            if process.poll() not in (None, 0):
                line = self.last_line(name) or "its log is empty"
                raise RoundError(f"{name} {how_it_ended(process.returncode)}: {line}")

    def last_line(self, name: str) -> str:
        """The last line of a child's log; empty if there is none."""
        return last_line(self.folder / f"{name}.log")

    def ended(self, name: str) -> bool:
        """Whether a child has ended."""
        return self.running[name].poll() is not None

    def kill(self, name: str) -> None:
        """Kill one child, as a power cut would."""
        end(self.running[name])

    def stop(self) -> None:
        """Terminate all children, the last started first; kill those that do not exit."""
        end_all(reversed(self.running.values()), grace_s=STOP_S)
