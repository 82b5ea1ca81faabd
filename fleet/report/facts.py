"""Runs as a report reads them: `run.json`, checked field by field, with a unique name for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from aggregator.fusion.example_cap import Capped
from core.errors import ConfigError, DataError
from core.lost_devices import remedy
from fleet.results.lost import lost_in_all
from fleet.results.run_file import PrototypeResult, RoundResult, read_run
from fleet.virtual.hardware import Usage

__all__ = ["FleetDevice", "Judged", "RunFacts", "Virtual", "facts_of", "read_facts", "read_runs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetDevice:
    """One device of `fleet`."""

    device: str
    prototype: str
    examples: int = 0
    labels: list[int] = field(default_factory=list)  # samples per class, as reported by the device
    attack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The role of one device's update in the fusion of one round."""

    weight: float | None = None
    score: float | None = None
    screened: str | None = None
    capped: Capped | None = None
    own_accuracy: float | None = None  # of its own model, in rounds that scored it
    whole_accuracy: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Virtual:
    """One round in virtual time."""

    opened_s: float
    closed_s: float
    late: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    abandoned: str | None = None
    boards: dict[str, Usage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """The keys of `run.json` that a report needs; others are ignored."""

    config: dict[str, Any]
    fleet: list[FleetDevice]
    rounds: list[RoundResult]
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A run with at least one scored round."""

    name: str  # display name: the end of its path
    config: dict[str, Any]
    versions: dict[str, str]
    fleet: Sequence[FleetDevice]
    rounds: Sequence[RoundResult]
    judged: Sequence[dict[str, Judged]]  # by round and device
    virtual: Sequence[Virtual] = ()  # by round, if all rounds have it

    @property
    def last(self) -> RoundResult:
        """The last scored round."""
        return self.scored_rounds[-1]

    @property
    def scored_rounds(self) -> list[RoundResult]:
        """Rounds after which all models were scored."""
        return [r for r in self.rounds if _is_scored(r)]

    @property
    def prototypes(self) -> list[str]:
        """The names of all prototypes, in order of first occurrence."""
        return list(dict.fromkeys(name for result in self.rounds for name in result.prototypes))

    def results(self, prototype: str) -> list[tuple[int, PrototypeResult]]:
        """The prototype's result by round; its accuracy is NaN in rounds that were not scored."""
        return [(r.round, r.prototypes[prototype]) for r in self.rounds if prototype in r.prototypes]

    def scored(self, prototype: str) -> list[tuple[int, PrototypeResult]]:
        """The prototype's scored results."""
        return [(round_number, p) for round_number, p in self.results(prototype) if not math.isnan(p.accuracy)]

    @property
    def attackers(self) -> dict[str, str]:
        """Attack by device."""
        return {d.device: d.attack for d in self.fleet if d.attack is not None}


def read_runs(paths: Sequence[Path]) -> list[RunFacts]:
    """The runs at `paths`, folders or files, named by the shortest unique endings of their paths."""
    folders = [(path if path.is_dir() else path.parent).resolve() for path in paths]
    for path, folder in zip(paths, folders, strict=True):
        if folders.count(folder) > 1:
            raise ConfigError(f"{path}: given twice; give each run once")
    return [read_facts(path, name) for path, name in zip(paths, _names(folders), strict=True)]


def read_facts(path: Path, name: str) -> RunFacts:
    """Read one run; `DataError` names the problem and its place."""
    return facts_of(read_run(path), path, name)


def facts_of(facts: dict[str, Any], path: Path | str, name: str) -> RunFacts:
    """A run from the content of its `run.json`; `path` is for errors."""
    try:
        file = msgspec.convert(_whole(facts), _File)
        judged = [msgspec.convert(r.devices, dict[str, Judged]) for r in file.rounds]
        virtual = [msgspec.convert(r.virtual, Virtual) for r in file.rounds if r.virtual]
    except msgspec.ValidationError as error:
        raise DataError(f"{path}: not a valid run.json: {_one_line(error)}; run the simulation again") from error
    if not any(map(_is_scored, file.rounds)):
        raise DataError(f"{path}: {_why_unscored(file)}")
    for result in file.rounds:
        for prototype, p in result.prototypes.items():
            if not (math.isnan(p.accuracy) or 0 <= p.accuracy <= 1):
                raise DataError(f"{path}: round {result.round}, {prototype}: accuracy {p.accuracy}, expected 0 to 1")
    return RunFacts(
        name=name,
        config=file.config,
        versions=file.versions,
        fleet=file.fleet,
        rounds=file.rounds,
        judged=judged,
        virtual=virtual if len(virtual) == len(file.rounds) else (),
    )


def _why_unscored(file: _File) -> str:
    """Why there is nothing to report: the devices were lost, or the run has only begun."""
    if not (lost := lost_in_all(file.rounds)):
        return "has no scored round yet; wait for one, or run the simulation again"
    try:
        advice = remedy(file.config["training"])
    except (KeyError, TypeError, ValueError):  # of a file that somebody has changed
        advice = "run it again"
    return f"no model was fused, so there is nothing to show: {lost}; {advice}"


def _whole(facts: dict[str, Any]) -> dict[str, Any]:
    """Add the NaN values that JSON cannot represent: non-finite losses, missing scores."""

    def result(p: Any) -> Any:
        return {"accuracy": math.nan, "loss": math.nan, "train_loss": None, **p} if isinstance(p, dict) else p

    def one_round(r: Any) -> Any:
        if not isinstance(r, dict) or not isinstance(r.get("prototypes"), dict):
            return r
        return {**r, "prototypes": {name: result(p) for name, p in r["prototypes"].items()}}

    rounds = facts.get("rounds")
    return {**facts, "rounds": [one_round(r) for r in rounds]} if isinstance(rounds, list) else facts


def _is_scored(result: RoundResult) -> bool:
    return bool(result.prototypes) and not any(math.isnan(p.accuracy) for p in result.prototypes.values())


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).replace("`", "")


def _names(folders: Sequence[Path]) -> list[str]:
    """The shortest unique endings of the paths.

    >>> _names([Path("/a/run"), Path("/b/run"), Path("/c")])
    ['a/run', 'b/run', '/c']
    """
    for count in range(1, max(len(folder.parts) for folder in folders) + 1):
        names = [str(Path(*folder.parts[-count:])) for folder in folders]
        if len(set(names)) == len(names):
            return names
    raise AssertionError("resolved folders differ")
