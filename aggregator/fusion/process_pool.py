"""A pool of persistent processes: one JSON line in, one JSON line out.

    {"call": "package.module:function", "request": {...}}      answered by {"answer": {...}} or {"error": "..."}

A process exits when its stdin is closed, even in the middle of its work: when this process dies, all of them do.
Nothing is pickled.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Protocol, cast

from core.errors import EdgestillError, RoundError
from core.processes.pipes import claim_stdout, write_json
from core.processes.process import Child, end, how_it_ended, send, start_python
from core.processes.python_child import module_arguments

__all__ = ["Asks", "Far", "Pool", "call", "far_pool", "lent", "main", "shared_pool"]


class _Process:
    """One process of the pool; started on its first request."""

    def __init__(self) -> None:
        self._process: Child | None = None

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Send, and wait for the answer."""
        process = self._process = self._process or start_python(module_arguments("aggregator.fusion.process_pool"))
        assert process.stdout is not None
        line = process.stdout.readline() if send(process, json.dumps(message).encode() + b"\n") else b""
        if not line:
            self.close()
            raise RoundError(f"a student's process {how_it_ended(process.returncode)}; is there enough memory?")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RoundError(answer["error"])
        return dict(answer["answer"])

    def close(self) -> None:
        """End it."""
        process, self._process = self._process, None
        if process is not None:
            end(process)


class Pool:
    """`size` processes. Requests are dispatched in order, to the next free one."""

    def __init__(self, size: int) -> None:
        self._free: SimpleQueue[_Process] = SimpleQueue()
        self._all = [_Process() for _ in range(size)]
        for process in self._all:
            self._free.put(process)

    def __len__(self) -> int:
        return len(self._all)

    def ask_all(self, call: str, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The answers of `call`, a `module:function`, to each request, in order."""

        def ask(request: Mapping[str, Any]) -> dict[str, Any]:
            process = self._free.get()
            try:
                return process.ask({"call": call, "request": request})
            finally:
                self._free.put(process)

        with ThreadPoolExecutor(len(self._all)) as threads:
            return list(threads.map(ask, requests))

    def close(self) -> None:
        """End all processes."""
        for process in self._all:
            process.close()


class Asks(Protocol):
    """The interface of a pool."""

    def ask_all(self, call: str, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The answers of `call`, a `module:function`, to each request, in order."""


class Far(Asks, Protocol):
    """A pool whose workers may be on other machines."""

    far: bool

    @property
    def workers(self) -> int:
        """Number of parallel workers."""


_shared: Pool | None = None
_lent: Asks | None = None


@contextmanager
def lent(pool: Asks | None) -> Iterator[None]:
    """A context in which `shared_pool` returns `pool`: existing processes, such as a simulation's workers."""
    global _lent
    before, _lent = _lent, pool
    try:
        yield
    finally:
        _lent = before


def far_pool() -> Far | None:
    """The lent pool, if its workers may be on other machines."""
    return cast("Far", _lent) if getattr(_lent, "far", False) else None


def shared_pool(size: int) -> Asks:
    """The lent pool or, with at least `size` processes, this process' own, which is kept until exit."""
    global _shared
    if _lent is not None:
        return _lent
    if _shared is None or len(_shared) < size:
        if _shared is not None:
            _shared.close()
        _shared = Pool(size)
        atexit.register(_shared.close)
    return _shared


def call(name: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """The result of the function `name`, a `module:function`."""
    module, _, function = name.partition(":")
    answer: dict[str, Any] = getattr(importlib.import_module(module), function)(request)
    return answer


def main() -> None:
    """Serve until stdin ends."""
    answers = claim_stdout()
    requests: SimpleQueue[str] = SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            requests.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        message = json.loads(requests.get())
        answer: dict[str, Any]
        try:
            answer = {"answer": call(message["call"], message["request"])}
        except EdgestillError as error:
            answer = {"error": str(error)}
        try:
            write_json(answers, answer)
        except BrokenPipeError:
            os._exit(0)  # the parent was killed


if __name__ == "__main__":
    main()
