"""Selects the samples for training and those held out: a pure function of the entries.

A sample is held out if its hash, as a number in [0, 1), is below the fraction. So no sample ever changes sides when
others are added or removed, and equal samples are on the same side.

    newest      above the cap, the latest samples
    reservoir   above the cap, the samples with the lowest second half of the hash: a uniform sample of all, in which
                only as many change as new ones enter (bottom-k sampling)

Expired samples go first, then each class is capped, then all together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from edge_agent.samples.entries import DIGEST_BYTES, Entry
from edge_agent.samples.spec import SourceSpec
from edge_agent.samples.task_file import KnownTask

__all__ = ["Choice", "choose", "is_held_out"]

HALF = DIGEST_BYTES // 2


@dataclass(slots=True)
class Choice:
    """Samples in the order of their source; labels are numbers where the task is known."""

    train: list[Entry] = field(default_factory=list)
    held: list[Entry] = field(default_factory=list)
    unlabeled: int = 0
    expired: int = 0
    capped: int = 0
    unknown: Counter[str] = field(default_factory=Counter)  # samples of classes that the task does not have
    named: bool = False  # whether there are class names that no task has explained yet


def choose(entries: Sequence[Entry], spec: SourceSpec, known: KnownTask | None, *, now: float, fits: int) -> Choice:
    """The samples for training and those held out; `fits` is how many the memory takes."""
    made = Choice()
    usable = []
    for entry in entries:
        if entry.label is None:
            made.unlabeled += 1
        elif known is not None and known.label(entry.label) is None:
            made.unknown[str(entry.label)] += 1
        elif spec.max_age_s is not None and now - entry.time > spec.max_age_s:
            made.expired += 1
        else:
            made.named |= known is None and isinstance(entry.label, str)
            usable.append(entry)
    kept = _capped(usable, spec, fits)
    made.capped = len(usable) - len(kept)
    for entry in kept:
        (made.held if is_held_out(entry.digest, spec.validation) else made.train).append(entry)
    return made


def is_held_out(digest: bytes, fraction: float) -> bool:
    """Whether a sample is in the held-out part.

    >>> is_held_out(bytes(16), 0.1), is_held_out(bytes(16), 0.0), is_held_out(b"\\xff" * 16, 0.9)
    (True, False, False)
    """
    return int.from_bytes(digest[:HALF], "big") < fraction * 2.0 ** (8 * HALF)


def _capped(entries: Sequence[Entry], spec: SourceSpec, fits: int) -> Sequence[Entry]:
    kept = entries
    if spec.max_per_class is not None:
        groups: dict[object, list[int]] = defaultdict(list)
        for i, entry in enumerate(kept):
            groups[entry.label].append(i)
        kept = _in_order(kept, (i for group in groups.values() for i in _first(kept, group, spec, spec.max_per_class)))
    most = fits if spec.max_samples is None else min(spec.max_samples, fits)
    return kept if len(kept) <= most else _in_order(kept, _first(kept, range(len(kept)), spec, most))


def _first(entries: Sequence[Entry], group: Sequence[int], spec: SourceSpec, most: int) -> Sequence[int]:
    """The samples of a group up to its cap, by the policy."""
    if len(group) <= most:
        return group
    if spec.keep == "reservoir":
        return sorted(group, key=lambda i: (entries[i].digest[HALF:], i))[:most]
    return sorted(group, key=lambda i: (entries[i].time, i), reverse=True)[:most]


def _in_order(entries: Sequence[Entry], chosen: Iterable[int]) -> list[Entry]:
    return [entries[i] for i in sorted(chosen)]
