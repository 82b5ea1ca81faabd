"""The parts of an experiment: runs, which measure, and cells, which compare measurements with a paper. No torch.

    run      a measurement: (fidelity, seed) -> facts, plain JSON values. Each is executed in its own process and stored
             in a file, so runs are parallel and an interrupted experiment can be continued.
    cell     one number of the result page, computed from the facts of one or more runs with the same seed; the mean
             over the seeds is listed with the paper's number and compared with a target.

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

Fidelity `paper` is the papers' formulas with a sound evaluation, `reference` the behaviour of the authors' code.
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

#: Overrides of the papers' experiments with 1-bit devices: the student is the full-precision model, as in FedDF.
FLOAT_STUDENT: Mapping[str, Any] = MappingProxyType({"student": "float", "check_at": "float"})
#: Overrides of every experiment's recipe: the papers weight devices by all of their examples.
UNCAPPED: Mapping[str, Any] = MappingProxyType({"max_examples_ratio": 0.0})
Facts = Mapping[str, Any]  # measurements of a run
Results = Mapping[str, Facts]  # by run, of one seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The arguments of a run."""

    fidelity: str
    seed: int
    folder: Path  # for its own files; not created yet
    say: Callable[[str], None] = lambda _: None  # reports progress: "round 3/30, 91.2 %"


Measure = Callable[[Setting], Facts]


@dataclass(frozen=True, slots=True)
class Fact:
    """A number computed from the results of one seed, and the runs that it needs."""

    runs: tuple[str, ...]
    value: Callable[[Results], float]
    words: str


def fact(run: str, key: str, *, scale: float = 1.0, words: str = "") -> Fact:
    """The fact `key` of `run`, times `scale`; `words` is its name on the page, by default the run's name."""
    return Fact((run,), lambda results: scale * float(results[run][key]), words or run)


def difference(a: Fact, b: Fact) -> Fact:
    """a - b, seed by seed."""
    runs = tuple(dict.fromkeys(a.runs + b.runs))
    return Fact(runs, lambda results: a.value(results) - b.value(results), f"{a.words} - {b.words}")


@dataclass(frozen=True, slots=True)
class Target:
    """`ours` must satisfy `sign` against `bound`: a number, or a fact whose mean over the seeds is the bound."""

    sign: str  # < <= > >= or ~
    bound: float | Fact
    tolerance: float = 0.0  # of ~

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs that the bound needs."""
        return self.bound.runs if isinstance(self.bound, Fact) else ()

    def met(self, ours: float, bound: float) -> bool:
        """Whether the target is met; never for NaN."""
        held = {
            "<": ours < bound,
            "<=": ours <= bound,
            ">": ours > bound,
            ">=": ours >= bound,
            "~": abs(ours - bound) <= self.tolerance,
        }
        return held[self.sign]

    def text(self, bound: float) -> str:
        """The text on the result page."""
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

    name: str  # short, without commas: `--cells` selects by it
    ours: Fact
    paper: float | None = None  # the published number
    target: Target | None = None
    unit: str = "%"
    note: str = ""

    @property
    def runs(self) -> tuple[str, ...]:
        """All runs that the cell needs."""
        return tuple(dict.fromkeys(self.ours.runs + (self.target.runs if self.target else ())))


#: Results by fidelity and seed, the input of a figure; missing runs are absent.
AllResults = Mapping[tuple[str, int], Results]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A table or a figure of a paper."""

    title: str  # one line
    about: str  # Markdown above the table: method, the paper's numbers, differences
    runs: Callable[[str], Mapping[str, Measure]]  # by fidelity
    cells: Callable[[str], Sequence[Cell]]  # by fidelity
    fidelities: tuple[str, ...] = ("paper",)
    seeds: tuple[int, ...] = (0,)  # default seeds
    draw: Callable[[AllResults], Figure] | None = None  # None: bars of ours and the paper's numbers
    parameters: Mapping[str, Any] = field(default_factory=dict)  # listed on the page: sizes, rounds, ...
