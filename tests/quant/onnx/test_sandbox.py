"""What a fork that reads a graph can do, and what becomes of one that ends otherwise than with its answer.

Code is put in the place of `read_weights`, in a real fork.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from quant.onnx import sandbox
from tests.quant.onnx.graphs import WEIGHT, linear
from wire.tensors import decode

pytestmark = pytest.mark.light
GOOD = linear().SerializeToString()


def test_an_answer_is_a_tensor_message_or_a_reason() -> None:
    good, bad = sandbox._weights(GOOD), sandbox._weights(b"no graph")
    assert (good[:1], bad[:1]) == (sandbox.WEIGHTS, sandbox.REASON)
    np.testing.assert_array_equal(decode(good[1:])["fc.weight"], WEIGHT)
    assert b"ONNX" in bad


def test_the_graph_that_warms_it_up_passes_every_check() -> None:
    assert sandbox._weights(sandbox._small_graph())[:1] == sandbox.WEIGHTS


def in_fork(act: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch, seconds: int = 1) -> bytes:
    monkeypatch.setattr(sandbox, "_weights", lambda graph: act())
    answer = sandbox._read_in_fork(GOOD, seconds)
    return answer[1:] if answer[:1] == sandbox.REASON else answer


def refusal_of(act: Callable[[], object]) -> bytes:
    try:
        act()
    except (OSError, MemoryError) as error:
        return b"\0" + type(error).__name__.encode()
    return b"\0done"


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda: Path("/etc/hostname").read_bytes(), b"OSError"),
        (lambda: Path("/tmp/edgestill-planted").write_bytes(b"x"), b"OSError"),
        (socket.socket, b"OSError"),
        (os.pipe, b"OSError"),
        (lambda: bytearray(2**31), b"MemoryError"),
    ],
    ids=["read", "write", "socket", "pipe", "memory"],
)
def test_a_fork_opens_nothing_and_has_little_memory(
    act: Callable[[], object], error: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert in_fork(lambda: refusal_of(act), monkeypatch) == b"\0" + error


def test_a_fork_that_computes_without_end_is_ended_after_its_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def forever() -> bytes:
        while True:
            pass

    monkeypatch.setattr(sandbox, "PATIENCE", 60)  # a busy machine takes long to give it a second
    assert b"SIGKILL after 1 s of processor time" in in_fork(forever, monkeypatch)


def test_a_fork_that_sleeps_is_ended_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "PATIENCE", 1)
    assert b"takes more than 1 s" in in_fork(lambda: bytes(int(time.sleep(60) or 0)), monkeypatch)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT], ids=lambda n: n.name)
def test_a_fork_that_crashes_refuses_its_graph(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash() -> bytes:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return b""

    assert number.name.encode() in in_fork(crash, monkeypatch)


def test_a_fork_that_answers_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "ANSWER", 1000)
    assert b"without end" in in_fork(lambda: bytes(10**7), monkeypatch)
