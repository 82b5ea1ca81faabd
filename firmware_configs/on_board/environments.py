"""Virtual environments beside each other: a new one begins as a copy of another, by hard links.

pip replaces files and never writes to them, so what both have is on the disk once, and a power cut in the midst of an
installation leaves the other as it was. What is unchanged need not travel: pip passes over what is there already.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from firmware_configs.on_board.bundles import RefusedError

__all__ = ["copy_environment", "installed", "python_of", "run", "version_in"]


def _site(environment: Path) -> Path:
    (found,) = environment.glob("lib/python3*/site-packages")
    return found


def python_of(environment: Path) -> str:
    """The Python of an environment, such as 3.11."""
    return _site(environment).parent.name.removeprefix("python")


def version_in(environment: Path) -> str:
    """The version of edgestill in an environment."""
    return next((version for name, version in installed(environment) if name == "edgestill"), "0")


def installed(environment: Path) -> set[tuple[str, str]]:
    """Name and version of every package in an environment."""
    parts = (path.stem.partition("-") for path in _site(environment).glob("*.dist-info"))
    return {(re.sub(r"[-_.]+", "-", name).lower(), version) for name, _, version in parts}


def copy_environment(former: Path, new: Path) -> None:
    """A new virtual environment with the packages of another: hard links, which pip replaces and never writes to."""
    settings = (former / "pyvenv.cfg").read_text()
    shared = re.search(r"^include-system-site-packages *= *true", settings, re.MULTILINE)
    more = ["--system-site-packages"] if shared else []
    run([str(former / "bin/python"), "-I", "-m", "venv", "--without-pip", *more, str(new)])
    shutil.copytree(_site(former), _site(new), symlinks=True, copy_function=_link, dirs_exist_ok=True)
    for path in (former / "bin").iterdir():
        if path.is_file() and not path.is_symlink() and not (new / "bin" / path.name).exists():
            text = path.read_bytes()
            if text.startswith(f"#!{former}/bin/python".encode()):
                (new / "bin" / path.name).write_bytes(text.replace(str(former).encode(), str(new).encode(), 1))
                (new / "bin" / path.name).chmod(0o755)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)


def run(command: list[str], **environ: str) -> None:
    """A command that must succeed; its last line says why it has not."""
    known = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(command, capture_output=True, text=True, env={**known, **environ}, check=False)
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR: ")] or lines or [f"exit code {done.returncode}"]
        raise RefusedError(f"it cannot be installed: {errors[-1]}")
