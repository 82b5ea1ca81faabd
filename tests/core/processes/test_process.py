"""Children: what they are told and find, how they are ended, and how that is said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import core.processes.python_child
from core.processes.process import (
    Child,
    end,
    end_all,
    end_fork,
    environment,
    how_it_ended,
    kill,
    last_line,
    send,
    signal_name,
    start_python,
)
from core.processes.python_child import ROOT, import_path

pytestmark = pytest.mark.light
ECHO = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
)


def said(child: Child) -> bytes:
    assert child.stdout is not None
    return child.stdout.read()


def test_a_child_is_sent_bytes_and_sees_their_end() -> None:
    child = start_python(("-c", ECHO))
    assert send(child, b"one ", b"two", close=True)
    assert said(child) == b"one two"
    assert child.wait() == 0
    end(child)
    assert child.stdout.closed


def test_what_is_sent_to_a_child_that_has_ended_is_said_so() -> None:
    child = start_python(("-c", "pass"))
    child.wait()
    assert not send(child, b"x" * 2**20)
    end(child)


def test_a_log_holds_both_outputs_and_is_begun_anew_or_gone_on_with(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    code = "import os; os.write(1, b'out\\n'); os.write(2, b'err\\n'); os.write(1, os.getcwd().encode())"
    for append in (False, False, True):
        assert start_python(("-c", code), log=log, append=append, cwd=tmp_path).wait() == 0
    assert log.read_text() == f"out\nerr\n{tmp_path}" * 2
    assert last_line(log) == str(tmp_path)


def test_the_last_line_of_nothing_is_empty_and_of_a_long_log_is_its_last(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    assert last_line(log) == ""
    log.write_bytes(b"\n")
    assert last_line(log) == ""
    log.write_bytes(b"first\n" * 10_000 + b"l\xffst\n\n")
    assert last_line(log) == "l�st"


def test_a_child_has_a_session_of_its_own_unless_it_is_to_share_ours() -> None:
    code = "import os; print(os.getsid(0) == os.getpid())"
    for session in (True, False):
        child = start_python(("-c", code), session=session)
        assert said(child).strip() == str(session).encode()
        end(child)


def test_the_environment_has_threads_and_our_packages_and_crash_points_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESTILL_CRASH_AT", "somewhere")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    env = environment()
    assert (env["OMP_NUM_THREADS"], env["MKL_NUM_THREADS"], env["EDGESTILL_CRASH_AT"]) == ("1", "1", "somewhere")
    assert env["PYTHONPATH"].split(os.pathsep)[0] == str(ROOT)
    assert environment(threads=None)["OMP_NUM_THREADS"] == "7"
    assert "EDGESTILL_CRASH_AT" not in environment(crash_points=False)
    assert set(environment({"A": "b"}, threads=None)) == {"A", "PYTHONPATH"}
    assert os.environ["OMP_NUM_THREADS"] == "7"


def test_what_the_environment_says_of_packages_comes_before_what_this_process_has(tmp_path: Path) -> None:
    entries = import_path({"PYTHONPATH": f"{tmp_path}{os.pathsep}"}).split(os.pathsep)
    assert entries[:2] == [str(ROOT), str(tmp_path)]
    assert set(filter(None, sys.path)) <= set(entries)
    assert len(entries) == len(set(entries))


def test_installed_packages_do_not_come_before_the_standard_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core.processes.python_child, "ROOT", Path("/x/site-packages"))
    monkeypatch.setattr(sys, "path", ["", "/x/lib", "/x/site-packages"])
    assert import_path({}) == os.pathsep.join(["/x/lib", "/x/site-packages"])


def test_all_are_asked_to_end_and_those_that_do_not_are_killed() -> None:
    stubborn = start_python(("-c", STUBBORN))
    willing = start_python(("-c", "import time; print('ready', flush=True); time.sleep(600)"))
    for child in (stubborn, willing):
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
    done = start_python(("-c", "pass"))
    done.wait()
    end_all([willing, done], grace_s=600)  # it does not wait for longer than they need
    end_all([stubborn, done], grace_s=0.1)
    assert [child.returncode for child in (stubborn, willing, done)] == [-signal.SIGKILL, -signal.SIGTERM, 0]


def test_a_killed_child_leaves_what_it_said() -> None:
    child = start_python(("-c", STUBBORN), stderr=subprocess.DEVNULL)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    kill(child)
    assert (child.returncode, said(child)) == (-signal.SIGKILL, b"")
    kill(child)  # again does nothing
    end(child)


def test_a_fork_is_ended_and_reaped_once() -> None:
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    assert end_fork(pid) == -signal.SIGKILL
    assert end_fork(pid) == -signal.SIGKILL
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os._exit(5)
    os.close(writing)
    assert os.read(reading, 1) == b""  # it has ended: that decides
    os.close(reading)
    assert end_fork(pid) == 5


def test_endings_in_words() -> None:
    assert how_it_ended(3) == "ended with exit code 3"
    assert how_it_ended(-signal.SIGSEGV) == "was killed by SIGSEGV"
    assert how_it_ended(-77) == "was killed by signal 77"
    assert signal_name(signal.SIGTERM) == "SIGTERM"
