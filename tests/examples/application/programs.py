"""The examples for applications as commands: each is installed or compiled in a folder, or the test that asks skips.

JavaScript needs node, and npm with a package index; C a compiler and ONNX Runtime's headers, which Debian has from
trixie on: here they are used from a system that mmdebstrap makes, if it can.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

__all__ = ["CLASSIFY", "PROGRAMS", "ROOT", "c", "javascript", "python"]

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "application"
CLASSIFY = EXAMPLES / "python" / "classify.py"  # wants ROOT in PYTHONPATH


def python(folder: Path, model: Path) -> list[str]:
    """The command that classifies with the model published in `model`; the pictures follow."""
    return [sys.executable, str(CLASSIFY), str(model)]


def javascript(folder: Path, model: Path) -> list[str]:
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("*** NO NODE ON THIS MACHINE: THE JAVASCRIPT EXAMPLE IS NOT RUN ***")
    here = folder / "javascript"
    shutil.copytree(EXAMPLES / "javascript", here)
    npm = ["npm", "install", "--prefix", str(here), "--ignore-scripts", "--no-audit", "--no-fund"]
    run_or_skip(npm, "NPM CANNOT INSTALL: THE JAVASCRIPT EXAMPLE IS NOT RUN")
    return ["node", str(here / "classify.js"), str(model)]


def c(folder: Path, model: Path) -> list[str]:
    if shutil.which("mmdebstrap") is None or os.geteuid() != 0:
        pytest.skip("*** NO MMDEBSTRAP, OR NOT ROOT: THE C EXAMPLE IS NOT COMPILED ***")
    system = folder / "trixie"
    packages = "--include=gcc,libc6-dev,libonnxruntime-dev"
    debian = ["mmdebstrap", "--variant=apt", "--format=directory", packages, "trixie", str(system)]
    run_or_skip(debian, "MMDEBSTRAP FAILS: THE C EXAMPLE IS NOT COMPILED")
    shutil.copy(EXAMPLES / "c" / "classify.c", system / "srv")
    compiler = ["chroot", str(system), "cc", "-Wall", "-Wextra", "-Werror", "-O2", "-o", "/srv/classify"]
    done = subprocess.run([*compiler, "/srv/classify.c", "-lonnxruntime"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loader = next(system.glob("usr/lib/*-linux-gnu/ld-linux-*"))  # its own: so it sees the folders out here
    program = str(system / "srv" / "classify")
    return [str(loader), "--library-path", str(loader.parent), program, str(model / "current.onnx")]


PROGRAMS: tuple[Callable[[Path, Path], list[str]], ...] = (python, javascript, c)


def run_or_skip(command: Sequence[str], reason: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"*** {reason} ***: {done.stderr[-300:]}")
