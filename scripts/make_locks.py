"""Make firmware_configs/locks/: versions and hashes of all wheels that boards install, by architecture and Python.

    .venv/bin/python scripts/make_locks.py                  # all of them, from pip's index: minutes
    .venv/bin/python scripts/make_locks.py arm64 3.13       # only these

Ranges are those of pyproject.toml, versions those of constraints.txt. Exceptions are the constants below.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from core.errors import ConfigError
from firmware_configs.kits.lock import FOLDER, lock_text, locked
from firmware_configs.kits.own_wheel import project
from firmware_configs.kits.resolve import ARCHS, PYTHONS, Found, Target, reachable, resolve

ROOT = Path(__file__).resolve().parent.parent
#: The newest of those tried (2.6.0, 2.7.1, 2.10.0) whose wheels for ARM run on ARMv8.0, as in Raspberry Pis before the
#: 5: importing 2.10.0 on an emulated Cortex-A53 ends with SIGILL. From 2.11 on they require a server's GPU libraries.
ARM_TORCH = "2.7.1"
#: What torch requires besides those libraries: it is in no lock for amd64, but these are.
TORCH_NEEDS = (
    "filelock",
    "fsspec>=0.8.5",
    "jinja2",
    "networkx>=2.5.1",
    "setuptools",
    "sympy>=1.13.3",
    "typing-extensions",
)


def constraints(target: Target) -> dict[str, str]:
    """Of constraints.txt, those whose markers hold on the target."""
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"]
    parsed = [Requirement(line) for line in lines]
    held = [r for r in parsed if r.marker is None or r.marker.evaluate(target.environment())]
    return {canonicalize_name(r.name): str(r.specifier) for r in held} | {"torch": f"=={ARM_TORCH}"}


def make(target: Target) -> None:
    """Both locks of a target."""
    about = project(ROOT)
    without = () if target.arch == "arm64" else ("torch",)
    full = [*about["dependencies"], *about["optional-dependencies"]["train"], *(TORCH_NEEDS if without else ())]
    found = _resolved(full, target, without)
    for mode, wanted in (("full", full), ("light", about["dependencies"])):
        names = reachable(wanted, found, target, without=without)
        head = f"An agent in mode {mode} on {target.arch} with Python {target.python}: every wheel but edgestill's own."
        how = (
            "Made by scripts/make_locks.py from pyproject.toml and constraints.txt; see firmware_configs/kits/lock.py."
        )
        text = lock_text(locked(found[name] for name in names), head, how)
        (FOLDER / f"{target.arch}-py{target.python}-{mode}.txt").write_text(text)
        print(f"{target.arch} {target.python} {mode}: {len(names)} wheels", flush=True)


def _resolved(wanted: list[str], target: Target, without: tuple[str, ...]) -> dict[str, Found]:
    """With the tested versions, but where one has no wheel for this Python: then with the newest that has."""
    versions = constraints(target)
    while True:
        try:
            return resolve(wanted, target, constraints=versions, without=without)
        except ConfigError as error:
            missing = re.search(r"No matching distribution found for ([a-z0-9-]+)==", str(error))
            if missing is None or missing[1] not in versions:
                raise
            print(f"{target.arch} {target.python}: no {missing[1]} {versions.pop(missing[1])}", flush=True)


def main() -> None:
    """All targets that the command line leaves."""
    chosen = sys.argv[1:]
    for arch in [a for a in ARCHS if a in chosen] or ARCHS:
        for python in [p for p in PYTHONS if p in chosen] or PYTHONS:
            make(Target(arch, python))


if __name__ == "__main__":
    main()
