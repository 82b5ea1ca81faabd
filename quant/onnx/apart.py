"""Read the weights of a device's ONNX graph in a separate process (`quant/onnx/sandbox.py`). Imports no onnx.

The process is started for the first graph, dies with this one, and is replaced after a crash.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time

from core.errors import ModelError
from core.processes.pipes import read_exactly
from core.processes.process import Child, end, send, start_python
from core.processes.python_child import module_arguments
from quant.onnx.sandbox import ANSWER_PER_BYTE, HEAD, LENGTH, PATIENCE
from wire.tensors import Limits, Tensor, decode

__all__ = ["MAX_BYTES", "Reader", "read_apart", "seconds_spent"]

MAX_BYTES = 64 * 2**20  # of a graph, as in quant/onnx/graph_check.py
SECONDS, BYTES_PER_SECOND = 2, 8 * 2**20  # of processor time: a graph of 100 KB takes milliseconds
MOST = 4 * 2**20  # bytes of an answer, in addition to the size of its graph
START_S = 60.0  # importing onnx on a slow board


class Reader:
    """One sandbox and its connection; one graph at a time."""

    def __init__(self) -> None:
        self._process: Child | None = None
        self._owner = 0  # pid of the process that started it: after a fork, the child starts its own
        self._lock = threading.Lock()
        self.spent = 0.0  # seconds spent on graphs; the first includes the start of the sandbox

    @property
    def pid(self) -> int | None:
        """Process id of the sandbox, if there is one."""
        return None if self._process is None else self._process.pid

    def read(self, graph: bytes, limits: Limits) -> dict[str, Tensor]:
        """The weights by name; ModelError if the graph is unusable, TensorError if they exceed `limits`."""
        if len(graph) > MAX_BYTES:
            raise ModelError(f"ONNX file of {len(graph)} bytes, at most {MAX_BYTES} are accepted")
        seconds = SECONDS + len(graph) // BYTES_PER_SECOND
        with self._lock:
            answer = self._ask(graph, seconds) or self._ask(graph, seconds)
        if answer is None:
            raise ModelError("the ONNX graph could not be read: the process that reads graphs has ended twice over it")
        if answer[:1] != b"\0":
            raise ModelError(answer[1:].decode(errors="replace")[:500] or "the ONNX graph cannot be read")
        return decode(answer[1:], limits=limits)

    def close(self) -> None:
        """End the sandbox."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            end(process)

    def _ask(self, graph: bytes, seconds: int) -> bytes | None:
        """The answer; None if the sandbox died. OSError if it cannot be started, which is not the graph's fault."""
        process = self._running()
        assert process.stdout is not None
        begun, answers = time.monotonic(), process.stdout.fileno()
        until = begun + START_S + PATIENCE * seconds
        try:
            if not send(process, HEAD.pack(len(graph), seconds), graph):
                raise EOFError
            size = LENGTH.unpack(read_exactly(answers, LENGTH.size, until=until))[0]
            if size > MOST + ANSWER_PER_BYTE * len(graph):
                raise EOFError
            return bytes(read_exactly(answers, size, until=until))
        except (EOFError, TimeoutError):
            self.close()
            return None
        finally:
            self.spent += time.monotonic() - begun

    def _running(self) -> Child:
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            self.close()
            command, self._owner = module_arguments("quant.onnx.sandbox", str(os.getpid())), os.getpid()
            self._process = start_python(command, stderr=subprocess.DEVNULL)
        return self._process


_reader = Reader()


def read_apart(graph: bytes, limits: Limits) -> dict[str, Tensor]:
    """As `Reader.read`, by the one sandbox of this process."""
    return _reader.read(graph, limits)


def seconds_spent() -> float:
    """Total seconds this process has spent waiting for graphs."""
    return _reader.spent
