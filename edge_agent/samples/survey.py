"""Sample counts of a board: announced by the agent, and shown by `edgestill agent data`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from edge_agent.samples.choice import Choice
from edge_agent.samples.entries import Listing, printable
from edge_agent.samples.spec import SourceSpec
from edge_agent.samples.task_file import KnownTask
from wire.messages import DataState

__all__ = ["Survey", "make_survey", "unreadable"]

MOST_TOLD = 1000  # rejected files that are listed by name
MOST_NAMED = 20  # classes in an announcement


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of samples by their use."""

    path: str
    kind: str
    least: int  # training samples that a round needs
    waiting: str = ""  # why the board cannot train yet
    problem: str = ""  # why nothing can be read
    training: int = 0
    held_out: int = 0
    counts: dict[str, int] = {}  # training samples by class
    held_counts: dict[str, int] = {}
    label_counts: tuple[int, ...] = ()  # training samples by label, as they are announced
    unlabeled: int = 0
    expired: int = 0
    capped: int = 0
    writing: int = 0
    unchecked: int = 0
    unknown: dict[str, int] = {}  # samples of classes that the fleet does not have
    lacks: tuple[str, ...] = ()  # classes of the fleet without a sample here
    rejected_count: int = 0
    rejected: dict[str, str] = {}  # the first of them, and why
    passed_over_count: int = 0  # what is no sample: files of other kinds, deeper folders, labels without a file
    passed_over: dict[str, str] = {}

    @property
    def ready(self) -> bool:
        """Whether the board can train."""
        return not self.waiting

    def state(self, *, private: bool) -> DataState | None:
        """What is announced, if anything; with private counts no class is revealed."""
        first = next(iter(self.rejected.items()), None)
        hides = private and not self.ready and bool(self.training or self.passed_over_count)
        told = DataState(
            waiting=(f"waiting for samples in {self.path}" if hides else self.waiting)[:200],
            unlabeled=self.unlabeled,
            rejected=self.rejected_count,
            reason="" if first is None else f"{first[0]}: {first[1]}"[:200],
            unknown={} if private else {name[:100]: self.unknown[name] for name in sorted(self.unknown)[:MOST_NAMED]},
            lacks=() if private else self.lacks[:MOST_NAMED],
        )
        return None if told == DataState() else told


def make_survey(spec: SourceSpec, listing: Listing, choice: Choice, known: KnownTask | None) -> Survey:
    """The counts of a source and of the samples selected from it."""
    train, held = Counter(entry.label for entry in choice.train), Counter(entry.label for entry in choice.held)
    least = spec.min_samples
    waiting = ""
    if choice.named:
        waiting = f"waiting for the fleet's task, which comes with the first model: {sum(train.values())} samples"
    elif sum(train.values()) < least:
        waiting = f"waiting for samples in {spec.path}: {sum(train.values())} of {least}{_only(listing)}"
    return Survey(
        path=spec.path,
        kind=spec.kind,
        least=least,
        waiting=waiting,
        training=sum(train.values()),
        held_out=sum(held.values()),
        counts=_by_name(train, known),
        held_counts=_by_name(held, known),
        label_counts=() if choice.named else _by_label(train, known),
        unlabeled=choice.unlabeled,
        expired=choice.expired,
        capped=choice.capped + listing.beyond,
        writing=listing.writing,
        unchecked=listing.unchecked,
        unknown=dict(choice.unknown),
        lacks=_lacks(train + held, known),
        rejected_count=len(listing.rejected),
        rejected=dict(list(listing.rejected.items())[:MOST_TOLD]),
        passed_over_count=len(listing.passed_over),
        passed_over=dict(sorted(listing.passed_over.items())[:MOST_TOLD]),
    )


def _only(listing: Listing) -> str:
    """What there is instead of samples: other files alone are a path or a kind that is not meant."""
    if listing.entries or listing.rejected or listing.writing or listing.unchecked or not listing.passed_over:
        return ""
    name, reason = min(listing.passed_over.items())
    return f"; {len(listing.passed_over)} passed over, such as {name}: {reason}"


def unreadable(spec: SourceSpec, problem: str) -> Survey:
    """The survey of a source that cannot be read: the board waits, with the reason."""
    there = Path(spec.path).exists() or spec.kind == "python"
    waiting = f"waiting for samples in {spec.path}: 0 of {spec.min_samples}; it is not there yet"
    text = printable(" ".join(problem.split()), 500)
    return Survey(
        path=spec.path,
        kind=spec.kind,
        least=spec.min_samples,
        waiting=f"waiting for samples: {text}" if there else waiting,
        problem=text if there else "",
    )


def _by_name(counted: Counter[int | str | None], known: KnownTask | None) -> dict[str, int]:
    found: Counter[str] = Counter()
    for label, count in counted.items():
        number = known.label(label) if known is not None else None
        found[str(label) if known is None or number is None else known.name(number)] += count
    return dict(sorted(found.items()))


def _by_label(counted: Counter[int | str | None], known: KnownTask | None) -> tuple[int, ...]:
    numbers: Counter[int] = Counter()
    for label, count in counted.items():
        number = known.label(label) if known is not None else label
        if isinstance(number, int):
            numbers[number] += count
    return tuple(numbers[i] for i in range(max(numbers, default=-1) + 1))


def _lacks(counted: Counter[int | str | None], known: KnownTask | None) -> tuple[str, ...]:
    """Names only; a board without samples lacks all classes, and reports that it waits instead."""
    if known is None or known.task is None or not known.task.class_names or not counted:
        return ()
    there = {known.label(label) for label in counted}
    return tuple(name for i, name in enumerate(known.task.class_names) if i not in there)
