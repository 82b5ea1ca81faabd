"""The page as a process beside the service: whatever happens to it, no round waits for it."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread

from core.errors import ConfigError
from core.processes.process import Child, end, end_all, how_it_ended, start_python
from core.processes.python_child import module_arguments

__all__ = ["PageBeside"]

log = logging.getLogger("edgestill.web")
LOOK_S, REST_S, GRACE_S = 1.0, 10.0, 3.0


class PageBeside:
    """Serves the page while its block runs, and starts it again if it ends by a fault; not if it cannot be served."""

    def __init__(self, config: Path, settings: Sequence[str]) -> None:
        more = [word for text in settings for word in ("--set", text)]
        self._arguments = module_arguments("edgestill.web", str(os.getpid()), "--config", str(config), *more)
        self._child: Child | None = None
        self._over = Event()
        self._again = Event()
        self._watcher = Thread(target=self._watch, name="page", daemon=True)

    def __enter__(self) -> PageBeside:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join()

    def restart(self) -> None:
        """Start the page again, with fleet.toml as it is now."""
        self._again.set()

    @property
    def process_id(self) -> int | None:
        """Of the page's process; None while there is none."""
        return None if self._child is None else self._child.pid

    def _watch(self) -> None:
        while not self._over.is_set():
            try:
                self._child = child = start_python(self._arguments)
            except OSError as error:
                log.error("the page cannot be started: %s", error)
                self._over.wait(REST_S)
                continue
            self._again.clear()
            while child.poll() is None and not self._over.wait(LOOK_S) and not self._again.is_set():
                pass
            if self._over.is_set() or self._again.is_set():
                end_all([child], grace_s=GRACE_S)
            code = child.poll()
            end(child)
            if self._over.is_set():
                return
            if self._again.is_set():
                continue
            if code == ConfigError.exit_code:
                log.error("the page is not served; the reason is above")
                return
            log.error("the page %s; it is started again in %.0f s", how_it_ended(code), REST_S)
            self._over.wait(REST_S)
