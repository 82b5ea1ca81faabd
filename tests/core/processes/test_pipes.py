"""Bytes through pipes: whole, in time, or said why not."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from core.processes.pipes import json_lines, read_all, read_exactly, write_all, write_json
from core.processes.python_child import ROOT

pytestmark = pytest.mark.light


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for fd in (reading, writing):
        try:
            os.close(fd)
        except OSError:
            continue


def test_what_is_written_in_pieces_is_read_whole(pipe: tuple[int, int]) -> None:
    data = os.urandom(3 * 2**20)
    pieces = [data[:5], memoryview(data)[5:100_000], bytearray(data[100_000:])]
    thread = threading.Thread(target=write_all, args=(pipe[1], pieces))
    thread.start()
    assert read_exactly(pipe[0], 7) == data[:7]
    assert read_exactly(pipe[0], len(data) - 7, until=time.monotonic() + 60) == data[7:]
    thread.join()
    assert read_exactly(pipe[0], 0) == b""


def test_a_deadline_and_an_early_end_are_told_apart(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"abc")
    with pytest.raises(TimeoutError):
        read_exactly(pipe[0], 4, until=time.monotonic() + 0.05)
    os.write(pipe[1], b"d")
    os.close(pipe[1])
    with pytest.raises(EOFError):
        read_exactly(pipe[0], 2, until=time.monotonic() + 60)


def test_all_is_read_up_to_a_size_and_a_time(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"abc")
    assert read_all(pipe[0], most=10, until=time.monotonic() + 0.05) is None  # it does not end
    os.write(pipe[1], b"x" * 20)
    os.close(pipe[1])
    assert read_all(pipe[0], most=10, until=time.monotonic() + 60) is None
    reading, writing = os.pipe()
    os.write(writing, b"abc")
    os.close(writing)
    assert read_all(reading, most=3, until=time.monotonic() + 60) == b"abc"
    os.close(reading)


def test_nobody_who_reads_is_an_error(pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    with pytest.raises(BrokenPipeError):
        write_all(pipe[1], [b"x"])


def test_lines_of_json_pass_over_what_is_none() -> None:
    file = io.BytesIO()
    write_json(file, {"a": 1})
    file.write(b"a library prints\n\xff\xfe\n[1]\n3\n")
    write_json(file, {"b": "ü"})
    file.write(b'{"c": ')
    file.seek(0)
    assert list(json_lines(file)) == [{"a": 1}, {"b": "ü"}]


def test_stdout_is_for_answers_alone() -> None:
    code = (
        "from core.processes.pipes import claim_stdout; f = claim_stdout(); "
        "print('noise', flush=True); f.write(b'answer')"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, check=True)
    assert (done.stdout, done.stderr) == (b"answer", b"noise\n")
