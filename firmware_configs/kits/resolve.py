"""Resolves requirements to wheels for a board: another architecture and another Python than this machine's.

pip selects wheels for a foreign platform, but evaluates environment markers (`platform_machine == "x86_64"`) for the
machine that it runs on: torch's wheel for ARM would bring the GPU libraries of x86. So pip is asked for single
distributions (`--no-deps --dry-run --report`), and their requirements are followed here, with the markers of the board.

    requirements -> pip's answer for each -> requirements of the answers, whose markers hold on the board -> ...

until nothing is new. A version that a later requirement excludes is asked for again with all specifiers known so far.
Pinned packages (`pins`) keep their versions: a requirement that excludes one is an error.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from packaging.markers import Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from core.errors import ConfigError

__all__ = [
    "ARCHS",
    "PYTHONS",
    "Found",
    "Target",
    "ask",
    "held_requirements",
    "parse_requirement",
    "pip",
    "reachable",
    "resolve",
]

ARCHS = {"arm64": "aarch64", "amd64": "x86_64"}
#: Ubuntu 22.04 and JetPack 6; Debian and Raspberry Pi OS Bookworm; Ubuntu 24.04 and JetPack 7; Trixie.
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
#: The oldest glibc that all wheels run with; every system above has a newer one.
GLIBC = 28
MOST_ROUNDS = 40


@dataclass(frozen=True, slots=True)
class Target:
    """What wheels are for."""

    arch: str  # of ARCHS
    python: str  # of PYTHONS

    def platforms(self) -> list[str]:
        """Platform tags, newest first; pip does not derive the older ones by itself."""
        machine = ARCHS[self.arch]
        tags = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC, 16, -1)]
        return [*tags, f"manylinux2014_{machine}", f"linux_{machine}"]

    def options(self) -> list[str]:
        """pip's options for wheels of this target."""
        tags = [word for tag in self.platforms() for word in ("--platform", tag)]
        return ["--only-binary=:all:", "--implementation", "cp", "--python-version", self.python, *tags]

    def environment(self) -> dict[str, str]:
        """The values of environment markers on the board."""
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{self.python}.0",
            "os_name": "posix",
            "platform_machine": ARCHS[self.arch],
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": "linux",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A wheel, by pip's report."""

    name: str  # canonical
    version: str
    file: str
    sha256: str
    requires: tuple[str, ...]  # Requires-Dist


def parse_requirement(text: str) -> Requirement:
    """A requirement such as `scikit-image==0.25.*`; ConfigError if it is none."""
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise ConfigError(f"{text[:80]!r} is not a requirement: {str(error).splitlines()[0]}") from None


def resolve(
    wanted: Iterable[str],
    target: Target,
    *,
    constraints: Mapping[str, str] | None = None,
    pins: Mapping[str, str] | None = None,
    without: Collection[str] = (),
    source: Sequence[str] = (),
) -> dict[str, Found]:
    """Wheels for `wanted` and everything that they require, by name.

    `constraints` are specifiers of packages, if they are needed; `pins` are versions of packages that are there
    already, and not looked for; packages of `without` are neither looked for nor followed. `source` are further options
    for pip, such as `--find-links`.
    """
    walk = _Walk(target, constraints or {}, pins or {}, frozenset(without), source)
    here = {**target.environment(), "extra": ""}
    walk.add((r for r in map(parse_requirement, wanted) if _holds(r.marker, here)), "it is asked for")
    for _ in range(MOST_ROUNDS):
        if not (open_names := walk.open()):
            return walk.found
        walk.ask(open_names)
    raise ConfigError(f"{' '.join(sorted(open_names))}: no versions found that fit all requirements; pin one of them")


def reachable(
    wanted: Iterable[str], found: Mapping[str, Found], target: Target, *, without: Collection[str] = ()
) -> set[str]:
    """The packages of `found` that `wanted` and their requirements name."""
    pending = [parse_requirement(text) for text in wanted]
    names: set[str] = set()
    seen: set[tuple[str, str]] = set()
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        if name in without or not _holds(requirement.marker, {**target.environment(), "extra": ""}):
            continue
        names.add(name)
        for extra in ("", *sorted(requirement.extras)):
            if (name, extra) not in seen:
                seen.add((name, extra))
                pending += held_requirements(found[name], target, extra)
    return names


def held_requirements(found: Found, target: Target, extra: str) -> list[Requirement]:
    """Those of a wheel whose markers hold on the target; without their markers."""
    held = []
    for text in found.requires:
        requirement = parse_requirement(text)
        if _holds(requirement.marker, {**target.environment(), "extra": extra}):
            requirement.marker = None
            held.append(requirement)
    return held


class _Walk:
    """The state of one resolution."""

    def __init__(
        self,
        target: Target,
        constraints: Mapping[str, str],
        pins: Mapping[str, str],
        without: frozenset[str],
        source: Sequence[str],
    ) -> None:
        self.target, self.constraints, self.pins = target, constraints, pins
        self.without, self.source = without, source
        self.found: dict[str, Found] = {}
        self.specifiers: dict[str, SpecifierSet] = {}
        self.extras: dict[str, set[str]] = {}
        self._followed: set[tuple[str, str, str]] = set()

    def add(self, requirements: Iterable[Requirement], why: str) -> None:
        for requirement in requirements:
            name = canonicalize_name(requirement.name)
            if name in self.without:
                continue
            if name in self.pins:
                if not requirement.specifier.contains(self.pins[name], prereleases=True):
                    raise ConfigError(f"{requirement} ({why}) does not fit the kit's {name} {self.pins[name]}")
                continue
            first = SpecifierSet(self.constraints.get(name, ""))
            self.specifiers[name] = self.specifiers.get(name, first) & requirement.specifier
            self.extras.setdefault(name, set()).update(requirement.extras)
            if name in self.found:
                if not self.specifiers[name].contains(self.found[name].version, prereleases=True):
                    del self.found[name]  # asked for again, with all that is known now
                else:
                    self._follow(self.found[name])

    def open(self) -> list[str]:
        return sorted(set(self.specifiers) - set(self.found))

    def ask(self, names: list[str]) -> None:
        for found in ask([f"{name}{self.specifiers[name]}" for name in names], self.target, self.source):
            self.found[found.name] = found
        for name in names:
            if name in self.found:
                self._follow(self.found[name])

    def _follow(self, found: Found) -> None:
        for extra in ("", *sorted(self.extras.get(found.name, ()))):
            if (found.name, found.version, extra) not in self._followed:
                self._followed.add((found.name, found.version, extra))
                self.add(held_requirements(found, self.target, extra), f"{found.name} requires it")


def _holds(marker: Marker | None, environment: dict[str, str]) -> bool:
    return marker is None or marker.evaluate(environment)


def ask(requirements: list[str], target: Target, source: Sequence[str]) -> list[Found]:
    with tempfile.TemporaryDirectory(prefix="edgestill-") as folder:
        report = Path(folder, "report.json")
        how = ["--dry-run", "--ignore-installed", "--no-deps", "--target", folder, "--report", str(report)]
        pip("install", *how, *target.options(), *source, *requirements)
        answers = msgspec.json.decode(report.read_bytes())["install"]
    return [_found(answer) for answer in answers]


def _found(answer: Mapping[str, Any]) -> Found:
    about, where = answer["metadata"], answer["download_info"]
    name = canonicalize_name(about["name"])
    sha256 = where.get("archive_info", {}).get("hashes", {}).get("sha256")
    file = unquote(urlsplit(where["url"]).path.rpartition("/")[2])
    if sha256 is None:
        sha256 = _hash_of_file(where["url"], name)
    requires = tuple(about.get("requires_dist", ()))
    return Found(name=name, version=about["version"], file=file, sha256=sha256, requires=requires)


def _hash_of_file(url: str, name: str) -> str:
    """A file of a folder (`--find-links`) has no hash in pip's report before pip 23.1."""
    import hashlib

    place = urlsplit(url)
    if place.scheme != "file":
        raise ConfigError(f"{name}: pip's index tells no SHA-256 of its wheel; use an index that does")
    return hashlib.sha256(Path(unquote(place.path)).read_bytes()).hexdigest()


def pip(*arguments: str) -> None:
    """Run pip; ConfigError with its reason if it fails."""
    command = [sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check", "--no-input"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR: ")] or lines or ["no reason given"]
        raise ConfigError(f"pip {arguments[0]} failed: {errors[-1].removeprefix('ERROR: ')}")
