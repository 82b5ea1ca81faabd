"""Wheels for boards without a network at their first boot: downloaded by pip for another platform."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from core.errors import ConfigError
from firmware_configs.boards import Board

__all__ = ["collect_wheels", "platforms"]

_MACHINES = {"arm64": "aarch64", "amd64": "x86_64"}
NEWEST_GLIBC = 36  # Debian 12, the minimum of Bookworm boards; JetPack 6 has 2.35


def platforms(arch: str, newest: int = NEWEST_GLIBC) -> Iterator[str]:
    """The platform tags of a board, newest first; pip does not derive the older ones by itself."""
    machine = _MACHINES[arch]
    yield from (f"manylinux_2_{minor}_{machine}" for minor in range(newest, 16, -1))
    yield f"manylinux2014_{machine}"
    yield f"linux_{machine}"


def collect_wheels(board: Board, python: str, out: Path, *, package: str = "edgestill") -> list[Path]:
    """Download all wheels that an agent on this board needs to `out`; returns their paths.

    `package` is the pip requirement for edgestill: a name of its index, or the path of a source tree or wheel.
    """
    out.mkdir(parents=True, exist_ok=True)
    extra = f"[{board.extra}]" if board.extra else ""
    if Path(package).exists():
        if Path(package).is_dir():
            _pip("wheel", "--no-deps", "--wheel-dir", str(out), package)
            (package,) = map(str, out.glob("edgestill-*.whl"))
        wanted = f"edgestill{extra} @ {Path(package).resolve().as_uri()}"
    else:
        wanted = f"{package}{extra}"
    newest = 35 if board.torch == "jetson" else NEWEST_GLIBC
    tags = [word for tag in platforms(board.arch, newest) for word in ("--platform", tag)]
    target = ["--only-binary=:all:", "--implementation", "cp", "--python-version", python, *tags]
    _pip("download", "--dest", str(out), *target, wanted)
    return sorted(out.glob("*.whl"))


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["no reason given"]
        raise ConfigError(f"pip {arguments[0]} failed: {said[-1].removeprefix('ERROR: ')}")
