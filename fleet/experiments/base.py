"""What an experiment is: runs that measure, cells that compare what they measured with a paper. Imports no torch.

    run      a piece of work: (fidelity, seed) -> facts, plain JSON values. Each is made in a process of its own and
             kept in a file, so several run side by side and an interrupted experiment goes on where it was.
    cell     one number of the result page, made of the facts of one or more runs with the same seed; the mean over
             the seeds stands beside the paper's number and is held against a target.

    def accuracy(setting: Setting) -> Facts:
        return {"accuracy": train_and_test(seed=setting.seed)}

    EXPERIMENT = Experiment(
        title="...",
        about="...",
        runs=lambda fidelity: {name: partial(accuracy, recipe=name) for name in ("fedavg", "feddf")},
        cells=lambda fidelity: [
            Cell("FedAvg", fact("fedavg", "accuracy"), paper=62.2),
            Cell("FedDF", fact("feddf", "accuracy"), paper=71.4, target=above(fact("fedavg", "accuracy"))),
        ],
    )

Fidelity `paper` is the papers' formulas with a sane evaluation, `reference` the behaviour of the authors' code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "FLOAT_STUDENT",
    "UNCAPPED",
    "Cell",
    "Experiment",
    "Fact",
    "Facts",
    "Measure",
    "Results",
    "Setting",
    "Target",
    "above",
    "at_least",
    "at_most",
    "below",
    "difference",
    "fact",
    "within",
]

#: Overrides of the papers' experiments with 1-bit devices: the student is the full-precision model, as FedDF has it.
FLOAT_STUDENT: Mapping[str, Any] = MappingProxyType({"student": "float", "check_at": "float"})
#: Overrides of every experiment's recipe: the papers weigh devices by all of their examples.
UNCAPPED: Mapping[str, Any] = MappingProxyType({"max_examples_ratio": 0.0})
Facts = Mapping[str, Any]  # what a run measured
Results = Mapping[str, Facts]  # by run, of one seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a run is told."""

    fidelity: str
    seed: int
    folder: Path  # for files of its own; it is not made yet
    say: Callable[[str], None] = lambda _: None  # where it is, in a few words: "round 3/30, 91.2 %"


Measure = Callable[[Setting], Facts]


@dataclass(frozen=True, slots=True)
class Fact:
    """A number out of the results of one seed, and which runs it needs."""

    runs: tuple[str, ...]
    value: Callable[[Results], float]
    words: str


def fact(run: str, key: str, *, scale: float = 1.0, words: str = "") -> Fact:
    """The number that `run` called `key`, times `scale`; `words` name it on the page, by default the run's name."""
    return Fact((run,), lambda results: scale * float(results[run][key]), words or run)


def difference(a: Fact, b: Fact) -> Fact:
    """a - b, seed by seed."""
    runs = tuple(dict.fromkeys(a.runs + b.runs))
    return Fact(runs, lambda results: a.value(results) - b.value(results), f"{a.words} - {b.words}")


@dataclass(frozen=True, slots=True)
class Target:
    """`ours` must be `sign` than `bound`: a number, or a fact whose mean over the seeds is the bound."""

    sign: str  # < <= > >= or ~
    bound: float | Fact
    tolerance: float = 0.0  # of ~

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs that the bound needs."""
        return self.bound.runs if isinstance(self.bound, Fact) else ()

    def met(self, ours: float, bound: float) -> bool:
        """Whether it is; NaN never is."""
        held = {
            "<": ours < bound,
            "<=": ours <= bound,
            ">": ours > bound,
            ">=": ours >= bound,
            "~": abs(ours - bound) <= self.tolerance,
        }
        return held[self.sign]

    def text(self, bound: float) -> str:
        """As the result page has it."""
        if self.sign == "~":
            return f"{bound:g} ± {self.tolerance:g}"
        whose = f" ({self.bound.words})" if isinstance(self.bound, Fact) else ""
        return f"{self.sign} {bound:.2f}{whose}" if whose else f"{self.sign} {bound:g}"


def above(bound: float | Fact) -> Target:
    """ours > bound"""
    return Target(">", bound)


def at_least(bound: float | Fact) -> Target:
    """ours >= bound"""
    return Target(">=", bound)


def below(bound: float | Fact) -> Target:
    """ours < bound"""
    return Target("<", bound)


def at_most(bound: float | Fact) -> Target:
    """ours <= bound"""
    return Target("<=", bound)


def within(tolerance: float, of: float) -> Target:
    """|ours - of| <= tolerance"""
    return Target("~", of, tolerance)


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of the result page."""

    name: str  # short, without commas: `--cells` chooses by it
    ours: Fact
    paper: float | None = None  # the published number
    target: Target | None = None
    unit: str = "%"
    note: str = ""

    @property
    def runs(self) -> tuple[str, ...]:
        """All runs that it needs."""
        return tuple(dict.fromkeys(self.ours.runs + (self.target.runs if self.target else ())))


#: Results by fidelity and seed, as a figure gets them; a run that was not made is not in it.
AllResults = Mapping[tuple[str, int], Results]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A table or a figure of a paper."""

    title: str  # one line
    about: str  # Markdown above the table: what was done, which numbers of the paper, what differs
    runs: Callable[[str], Mapping[str, Measure]]  # by fidelity
    cells: Callable[[str], Sequence[Cell]]  # by fidelity
    fidelities: tuple[str, ...] = ("paper",)
    seeds: tuple[int, ...] = (0,)  # unless the user says otherwise
    draw: Callable[[AllResults], Figure] | None = None  # None: bars, ours beside the paper's
    parameters: Mapping[str, Any] = field(default_factory=dict)  # worth a line on the page: sizes, rounds, ...
