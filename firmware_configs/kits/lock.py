"""Locks: which wheels a board gets, by version and SHA-256, in pip's format for `--require-hashes`.

    # torch-2.7.1-cp311-cp311-manylinux_2_28_aarch64.whl
    torch==2.7.1 \\
        --hash=sha256:3282d9fe...

One wheel for each package, named above it. `firmware_configs/locks/` has one lock for each architecture, Python and
mode: `arm64-py3.11-full.txt`; scripts/make_locks.py makes them. A kit has `locks/py3.11.txt` for each Python that its
systems have: those wheels, edgestill's own and the user's.

torch is in no lock for amd64, whose wheels at pip's usual index require GBs of GPU libraries, and is taken out of the
lock for a Jetson: `[provision] torch` names an index or a folder with it, and its hash is recorded in the kit's lock.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from core.errors import ConfigError
from firmware_configs.kits.own_wheel import Wheel
from firmware_configs.kits.resolve import Found, Target
from wire.ids import check_digest

__all__ = ["FOLDER", "Locked", "lock_text", "locked", "parse_lock", "read_lock", "shipped_lock"]

FOLDER = Path(__file__).resolve().parents[1] / "locks"
ENTRY = re.compile(
    r"# (?P<file>\S+\.whl)\n(?P<name>[a-z0-9-]+)==(?P<version>\S+) \\\n    --hash=sha256:(?P<sha256>\w+)\n"
)
FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*\.whl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """One wheel of a lock."""

    name: str  # canonical
    version: str
    file: str
    sha256: str

    def __post_init__(self) -> None:
        check_digest(self.sha256)
        if not FILE.fullmatch(self.file) or canonicalize_name(self.file.partition("-")[0]) != self.name:
            raise ConfigError(f"{self.file[:80]!r} is not a wheel of {self.name}")


def locked(found: Iterable[Found]) -> dict[str, Locked]:
    """The lock of a resolution, by name."""
    return {f.name: Locked(name=f.name, version=f.version, file=f.file, sha256=f.sha256) for f in found}


def lock_text(wheels: Mapping[str, Locked], *head: str) -> str:
    """The text of a lock; `head` are its first lines, as comments."""
    entries = [
        f"# {wheel.file}\n{name}=={wheel.version} \\\n    --hash=sha256:{wheel.sha256}\n"
        for name, wheel in sorted(wheels.items())
    ]
    return "".join([*(f"# {line}\n" for line in head), *entries])


def parse_lock(text: str, what: str) -> dict[str, Locked]:
    """The wheels of a lock, by name; `what` names it in errors."""
    wheels = {found["name"]: Locked(**found.groupdict()) for found in ENTRY.finditer(text)}
    left = [line for line in ENTRY.sub("", text).splitlines() if line and not line.startswith("#")]
    if left:
        raise ConfigError(f"{what}: {left[0][:80]!r} is not of the form that edgestill writes; make the lock again")
    return wheels


def read_lock(path: Path) -> dict[str, Locked]:
    """The wheels of the lock at `path`."""
    return parse_lock(path.read_text(), path.name)


def shipped_lock(target: Target, mode: str, edgestill: Wheel | None = None) -> dict[str, Locked]:
    """The lock of edgestill's requirements for a target; `mode` is light or full.

    It is that of the edgestill that runs, or the one inside the wheel `edgestill`.
    """
    file = f"{target.arch}-py{target.python}-{mode}.txt"
    texts = _locks_of(edgestill) if edgestill is not None else {path.name: path for path in FOLDER.glob("*.txt")}
    if file not in texts:
        alike = (name.split("-") for name in texts if name.startswith(target.arch) and name.endswith(f"-{mode}.txt"))
        known = sorted(parts[1].removeprefix("py") for parts in alike)
        raise ConfigError(f"no lock for Python {target.python} on {target.arch}; there is one for {' '.join(known)}")
    found = texts[file]
    return parse_lock(found if isinstance(found, str) else found.read_text(), file)


def _locks_of(edgestill: Wheel) -> dict[str, str]:
    start = f"{FOLDER.parent.name}/{FOLDER.name}/"
    with zipfile.ZipFile(io.BytesIO(edgestill.data)) as archive:
        names = [name for name in archive.namelist() if name.startswith(start) and name.endswith(".txt")]
        return {name.removeprefix(start): archive.read(name).decode() for name in names}
