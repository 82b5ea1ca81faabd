"""Run the tests of the light agent (marked `light`) under other Python versions, on the base install without torch.

    .venv/bin/python scripts/light_tests.py            # every other supported interpreter found on this machine
    .venv/bin/python scripts/light_tests.py 3.13       # only this one

JetPack 6 ships Python 3.10 and Raspberry Pi OS Trixie 3.13; what runs on boards must work on both.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WANTED = ("3.10", "3.13")


def interpreter(version: str) -> Path | None:
    """A working `python<version>`: on the PATH, or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))]
    ask = ["-c", "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"]
    for candidate in filter(None, candidates):
        answer = subprocess.run([candidate, *ask], capture_output=True, text=True, check=False)
        if answer.stdout.strip() == version:
            return Path(candidate)
    return None


def environment(version: str, python: Path) -> Path:
    """The base install and the test runner in `.venv-light-<version>`; made once."""
    venv = ROOT / f".venv-light-{version}"
    stamp = venv / ".edgestill-light"
    sources = [ROOT / "pyproject.toml", ROOT / "constraints.txt"]
    if not stamp.exists() or any(s.stat().st_mtime > stamp.stat().st_mtime for s in sources):
        subprocess.run([python, "-m", "venv", venv], check=True)
        pip = [venv / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "-c", "constraints.txt", "-e", ".", "pytest", "hypothesis"], check=True, cwd=ROOT)
        stamp.touch()
    return venv / "bin/python"


def main() -> int:
    """Run the marked tests under each interpreter, side by side; the worst exit code."""
    versions = sys.argv[1:] or [v for v in WANTED if v != "{}.{}".format(*sys.version_info[:2])]
    files = [str(p) for p in sorted((ROOT / "tests").rglob("test_*.py")) if "mark.light" in p.read_text()]
    runs = {}
    for version in versions:
        python = interpreter(version)
        if python is None:
            print(f"*** no Python {version} on this machine: THE LIGHT TESTS DO NOT RUN UNDER IT ***", flush=True)
            continue
        print(f"setting up Python {version} for the light tests ...", flush=True)
        test = [environment(version, python), "-m", "pytest", "-q", "-m", "light", "-p", "no:cacheprovider", *files]
        runs[version] = subprocess.Popen(test, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    worst = 0
    for version, run in runs.items():
        output, _ = run.communicate()
        print(f"light tests under Python {version}:\n{output}", flush=True)
        worst = max(worst, abs(run.returncode))
    return worst


if __name__ == "__main__":
    sys.exit(main())
