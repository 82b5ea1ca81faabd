"""Limits that a process puts on itself hold, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.light
ROOT = Path(__file__).resolve().parents[3]


def said(code: str) -> str:
    """What a Python process prints that has `core.processes.process_limits` as `limits`."""
    code = f"import os, socket, core.processes.process_limits as limits\n{code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    return done.stdout.strip() or f"exit {done.returncode}"


def test_nothing_new_can_be_opened_and_what_is_open_stays_so() -> None:
    code = """
limits.no_new_files()
try:
    socket.socket()
except OSError as error:
    print(error.strerror)
"""
    assert said(code) == "Too many open files"


def test_memory_has_a_bound() -> None:
    code = """
limits.limit_resources(memory=limits.address_space() + 64 * 2**20, cpu_s=5)
bytearray(2**20)
try:
    bytearray(2**28)
except MemoryError:
    print("refused")
"""
    assert said(code) == "refused"


def test_processor_time_has_a_bound() -> None:
    assert said("limits.limit_resources(memory=2**34, cpu_s=1)\nwhile True: pass") == "exit -9"


def test_no_file_can_grow(tmp_path: Path) -> None:
    code = f"""
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = os.open({str(tmp_path / "f")!r}, os.O_CREAT | os.O_WRONLY)
limits.limit_resources(memory=2**34, cpu_s=5)
try:
    os.write(file, b"x")
except OSError as error:
    print(error.strerror)
"""
    assert said(code) == "File too large"


def test_a_network_of_its_own_has_no_way_out() -> None:
    code = """
if not limits.no_network():
    print("not permitted here")
else:
    try:
        socket.create_connection(("127.0.0.1", 9), timeout=1)
    except OSError as error:
        print(error.strerror)
"""
    assert said(code) in ("not permitted here", "Network is unreachable", "Cannot assign requested address")


def test_a_process_whose_parent_is_gone_ends() -> None:
    assert said("limits.die_with_parent(1 if os.getppid() != 1 else 2)\nprint('lives')") == "exit 1"
