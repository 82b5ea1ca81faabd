"""A command as a person types it: its exit code and what it prints, in this process or in one of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from edgestill.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    with pytest.raises(SystemExit) as done:
        main([str(arg) for arg in args])
    out, err = capsys.readouterr()
    return int(done.value.code or 0), out, err


def edgestill(*args: object, **options: object) -> subprocess.CompletedProcess:
    """In a process of its own."""
    command = [sys.executable, "-m", "edgestill", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)
