"""What runs on the pretend accelerator: the cases of tests/accelerated/, in a process of their own.

Once torch has a second device in a process, its autograd starts threads that no fork survives, and other tests fork.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CASES = sorted((ROOT / "tests" / "accelerated").glob("*.py"))


def run(mark: str, *files: Path) -> None:
    """Run the cases of `files` with this mark."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    plain = [name for name in env if name.startswith(("PYTEST", "COV"))]
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", mark, *map(str, files)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=ROOT,
        env={name: value for name, value in env.items() if name not in plain},
        capture_output=True,
        text=True,
        timeout=3000,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]


def test_the_quick_cases_hold() -> None:
    run("not slow", *CASES)


@pytest.mark.slow  # the whole matrix: architectures, precisions, recipes, kinds of updates
@pytest.mark.parametrize("name", ["child", "simulation", "training"])
def test_the_slow_cases_hold(name: str) -> None:
    run("slow", *(path for path in CASES if path.stem == name))
