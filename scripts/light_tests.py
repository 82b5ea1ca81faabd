"""Run the tests of the light agent (marked `light`) under other Python versions, without torch.

The environment is the base install with the extra `images`.

    .venv/bin/python scripts/light_tests.py            # every other supported interpreter found on this machine
    .venv/bin/python scripts/light_tests.py 3.13       # only this one

JetPack 6 ships Python 3.10 and Raspberry Pi OS Trixie 3.13; what runs on boards must work on both.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WANTED = ("3.10", "3.13")
#: Thousands of mutants, floods and broken networks: under the main interpreter only.
MAIN_ONLY = ("test_fuzz.py", "test_broker_flood.py", "transport/test_faults.py")
RUN = ("-m", "pytest", "-q", "-m", "light and not slow", "-p", "no:cacheprovider")


def interpreter(version: str) -> Path | None:
    """A working `python<version>` in PATH or among pyenv's versions."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))]
    ask = ["-c", "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"]
    for candidate in filter(None, candidates):
        answer = subprocess.run([candidate, *ask], capture_output=True, text=True, check=False)
        if answer.stdout.strip() == version:
            return Path(candidate)
    return None


def environment(version: str, python: Path) -> Path:
    """The base install with pictures and the test runner in `.venv-light-<version>`; created once."""
    venv = ROOT / f".venv-light-{version}"
    stamp = venv / ".edgestill-light"
    sources = [ROOT / "pyproject.toml", ROOT / "constraints.txt"]
    if not stamp.exists() or any(s.stat().st_mtime > stamp.stat().st_mtime for s in sources):
        print(f"setting up Python {version} for the light tests ...", flush=True)
        subprocess.run([python, "-m", "venv", venv], check=True)
        pip = [venv / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile"]
        wanted = ["-c", "constraints.txt", "-e", ".[images]", "pytest", "hypothesis"]
        subprocess.run([*pip, *wanted], check=True, cwd=ROOT)
        stamp.touch()
    return venv / "bin/python"


def run(version: str, python: Path) -> int:
    """Set up, run the marked tests, and print their output at once; returns the exit code."""
    files = [str(p) for p in sorted((ROOT / "tests").rglob("test_*.py")) if "mark.light" in p.read_text()]
    files = [path for path in files if not path.endswith(MAIN_ONLY)]
    try:
        command = [environment(version, python), *RUN, *files]
    except subprocess.CalledProcessError as error:
        print(f"light tests under Python {version}: cannot set it up: {error}", flush=True)
        return 1
    start = time.monotonic()
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # pip created none
    done = subprocess.run(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    print(f"light tests under Python {version}, {time.monotonic() - start:.0f} s:\n{done.stdout}", flush=True)
    return abs(done.returncode)


def main() -> int:
    """Set up and test every interpreter in its own thread; returns the worst exit code."""
    versions = sys.argv[1:] or [v for v in WANTED if v != "{}.{}".format(*sys.version_info[:2])]
    found = {version: interpreter(version) for version in versions}
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(run, version, python) for version, python in found.items() if python is not None]
    for version, python in found.items():
        if python is None:
            print(f"*** no Python {version} on this machine: THE LIGHT TESTS DO NOT RUN UNDER IT ***", flush=True)
    return max((r.result() for r in runs), default=0)


if __name__ == "__main__":
    sys.exit(main())
