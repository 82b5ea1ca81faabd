"""Fusion parts by kind and name: the built-in table, and users' own by entry point. A part is imported on first use.

A user's package declares its part in `pyproject.toml`, under its kind and its name in recipes:

    [project.entry-points."edgestill.fusion"]
    "weigh.mine" = "mypackage.parts:mine"

The kinds and their signatures (`aggregator/fusion/types.py`):

    screen    (view) -> list[str | None]     why an update is excluded, None if it stays
    trust     (view) -> Trusted              trust in each device of a prototype, and which are excluded
    weigh     (view) -> Sequence[float]      one weight >= 0 per update, not all zero
    average   (view, weights) -> State       the prototype's average
    teach     (logits (K, B, C)) -> (B, C)   the combined logits of K teachers for B samples

A part declares inputs beyond updates in an attribute: `mine.needs = ("scores",)`; `NEEDS` lists those that a round can
provide. The built-in names are reserved.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from core import own_code
from core.entry_points import guarded, origin, reported
from core.errors import ConfigError, did_you_mean

__all__ = ["GROUP", "NEEDS", "PARTS", "find_part", "part_names", "part_needs"]

GROUP = "edgestill.fusion"
Part = Callable[..., Any]
_HERE = "aggregator.fusion"


class BuiltIn(NamedTuple):
    """A built-in part: its location and its inputs."""

    where: str  # module:function
    needs: frozenset[str] = frozenset()


def _at(where: str, *needs: str) -> BuiltIn:
    return BuiltIn(f"{_HERE}.{where}", frozenset(needs))


#: Inputs that a part can declare and a round then provides; a user's part lists them in its attribute `needs`.
NEEDS: Mapping[str, str] = {
    "unlabeled": "unlabeled samples of the aggregator: without them a round is refused, unless they are optional",
    "labels": "labelled samples of the aggregator",
    "label_counts": "how many examples of each label a device has",
    "scores": "FedRAD's median scores, `view.scores` and `view.ensemble.scores()`, where there are unlabeled samples",
    "answers": "what all models say to some of the samples, `view.ensemble.answers()`, where there are any",
    "latents": "generated latents, `view.latents`",
    "trust": "a trust part before it",
}
#: By kind and name.
PARTS: Mapping[str, Mapping[str, BuiltIn]] = {
    "screen": {
        "finite": _at("screens.outliers:finite"),
        "drop-worst": _at("screens.outliers:drop_worst", "labels"),
        "afa-blocked": _at("weights.afa:blocked"),
        "fedmgda-blocked": _at("weights.fedmgda:blocked"),
    },
    "trust": {
        "two-doubts": _at("weights.two_doubts:two_doubts", "scores", "answers", "latents", "label_counts"),
    },
    "weigh": {
        "examples": _at("weights.simple:examples"),
        "uniform": _at("weights.simple:uniform"),
        "median-score": _at("teachers.median_score:median_score", "unlabeled", "scores"),
        "trust": _at("weights.trust:trusted_examples", "trust"),
        "multi-krum": _at("weights.krum:krum"),
        "afa": _at("weights.afa:afa"),
        "fedmgda": _at("weights.fedmgda:fedmgda", "labels"),
    },
    "average": {
        "mean": _at("averages.mean:mean"),
        "median": _at("averages.median:median"),
        "matched": _at("averages.fedma:matched"),
        "by-label": _at("averages.per_label:by_label", "label_counts"),
    },
    "teach": {
        "mean-logits": _at("teachers.combine:mean_logits", "unlabeled"),
        "median-logits": _at("teachers.combine:median_logits", "unlabeled"),
        "mean-probabilities": _at("teachers.combine:mean_probabilities", "unlabeled"),
    },
}


def part_names(kind: str) -> tuple[str, ...]:
    """Names of all parts of this kind: the built-in ones, then users'."""
    users = {point.name.partition(".")[2] for point in entry_points(group=GROUP) if point.name.startswith(f"{kind}.")}
    lent = (name.removeprefix(f"{kind}.") for name in own_code.names("part") if name.startswith(f"{kind}."))
    return (*PARTS[kind], *sorted(users - PARTS[kind].keys()), *lent)


def find_part(kind: str, name: str) -> Part:
    """The part; `ConfigError` lists the known ones."""
    own = own_code.found("part", f"{kind}.{name}")
    return _installed(kind, name) if own is None else reported(own, f"part {kind}.{name}")


@functools.cache  # looking through installed packages takes milliseconds
def _installed(kind: str, name: str) -> Part:
    built_in = PARTS[kind].get(name)
    points = tuple(entry_points(group=GROUP, name=f"{kind}.{name}"))
    if built_in is not None:
        if points:
            raise ConfigError(f"{origin(points[0])}: {kind}.{name} is a built-in part; rename the entry point")
        module, _, function = built_in.where.partition(":")
        part: Part = getattr(importlib.import_module(module), function)
        return part
    if not points:
        known = part_names(kind)
        hint = did_you_mean(name, known) or f"; known: {' '.join(known)}"
        raise ConfigError(f"no fusion part {kind}.{name}{hint}")
    if len(points) > 1:
        raise ConfigError(f"part {kind}.{name} comes from {' and '.join(map(origin, points))}; uninstall one")
    return guarded(points[0], f"part {points[0].name}")


def part_needs(kind: str, name: str) -> frozenset[str]:
    """The inputs of a part (`NEEDS`). A teach part always needs unlabeled samples."""
    built_in = PARTS[kind].get(name)
    if built_in is not None:
        return built_in.needs
    own = own_code.found("part", f"{kind}.{name}")
    needs = frozenset(getattr(own or _installed(kind, name), "needs", ()))
    unknown = sorted(needs - NEEDS.keys())
    if unknown:
        hint = did_you_mean(unknown[0], NEEDS) or f"; known: {' '.join(NEEDS)}"
        raise ConfigError(f"part {kind}.{name} needs {unknown[0]!r}, which no round provides{hint}")
    return needs | {"unlabeled"} if kind == "teach" else needs
