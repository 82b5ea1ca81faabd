"""Inputs and outputs of fusion, as values. One round of all prototypes in, the next model of each out.

Parts see a prototype's round as a `View`; state between rounds (server momentum, trust in devices) is in `Memory`,
which the caller stores: the same inputs and the same memory give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from aggregator.fusion.example_cap import Capped
from models.seeding import torch_rng
from models.spec import PrototypeSpec

if TYPE_CHECKING:
    from aggregator.fusion.generator.side_artifact import SideArtifact
    from aggregator.fusion.teachers.ensemble import Ensemble
    from aggregator.fusion.teachers.logits import Teacher

__all__ = [
    "DeviceReport",
    "Fused",
    "Group",
    "MakeTeacher",
    "Memory",
    "Received",
    "Server",
    "State",
    "Trusted",
    "View",
]

State = dict[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One device's update. `state` reads its tensors: float32, with dequantized weights."""

    device: str
    num_examples: int  # n_k
    state: Callable[[], Mapping[str, Tensor]]
    label_counts: tuple[float, ...] = ()  # integers, unless scaled (example_cap.py)
    predictor_only: bool = False  # then `state` has only the predictor's tensors
    model: bool = True  # False: the update has no tensors of a model, only `extra`
    extra: Callable[[], Mapping[str, Tensor]] = dict  # reads additional tensors: logits by label
    late: bool = False  # arrived after its round was closed: a teacher, never averaged


#: (prototype, update, round) -> how its model answers; several may be asked at once, each in a thread of its own.
MakeTeacher = Callable[[PrototypeSpec, Received, int], "Teacher"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One prototype in one round: the published model, and the updates, in the order of device ids."""

    spec: PrototypeSpec
    previous: Mapping[str, Tensor]
    updates: Sequence[Received]

    @property
    def name(self) -> str:
        """The prototype's name, such as `cnn:w1`."""
        return str(self.spec)


@dataclass(slots=True)
class Memory:
    """State that a recipe carries from round to round, by name; facts are plain JSON values."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The aggregator's own inputs: unlabeled samples, labelled ones, a compute device."""

    seed: int = 0
    source: Tensor | None = None  # unlabeled inputs (N, *input_shape)
    validation: tuple[Tensor, Tensor] | None = None  # labelled samples for early stopping and screens
    test: tuple[Tensor, Tensor] | None = None  # labelled samples only for reports
    score_ensemble: bool = True  # report the ensemble's accuracy on `test`: one more pass of all teachers
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    amp: str = "off"  # mixed precision of students
    processes: int = 1  # number of prototypes distilled in parallel
    teachers: Sequence[bytes] = ()  # further teachers as ONNX graphs
    make_teacher: MakeTeacher | None = None  # of a received model; None: it is frozen (teachers/logits.py)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One prototype's round as parts see it. `updates` has only whole models that passed the screens."""

    spec: PrototypeSpec
    round_number: int  # of the round
    previous: Mapping[str, Tensor]
    updates: Sequence[Received]
    memory: Memory  # a part's names start with its own name and the prototype's; parts may write to it
    options: Mapping[str, Any]  # of the recipe's parts
    server: Server
    ensemble: Ensemble | None = None  # all teachers of all prototypes, if there is a source
    alone: Sequence[Received] = ()  # predictor-only updates: for trust parts
    scores: Mapping[str, float] = field(default_factory=dict)  # by device: FedRAD's, if whole models were evaluated
    latents: Tensor | None = None  # (N, D) of the generator, Gaussian before there is one: for trust parts
    trust: Mapping[str, float] = field(default_factory=dict)  # by device, from the trust part: 1 is full trust

    @property
    def num_examples(self) -> list[int]:
        """n_k of every update."""
        return [update.num_examples for update in self.updates]

    @property
    def devices(self) -> list[str]:
        """Their devices."""
        return [update.device for update in self.updates]

    @property
    def members(self) -> list[Received]:
        """All updates with a predictor, by device id."""
        return sorted((*self.updates, *self.alone), key=lambda update: update.device)

    def rng(self, *purpose: object) -> torch.Generator:
        """A random generator for `purpose`, seeded by seed, round and prototype."""
        return torch_rng(self.server.seed, "fusion", self.round_number, str(self.spec), *purpose)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """The result of a trust part for one prototype's devices."""

    shares: Mapping[str, float]  # by device, from 0 (no trust, excluded as a teacher) to 1 (full trust)
    excluded: Mapping[str, str] = field(default_factory=dict)  # device: why
    scores: Mapping[str, float] = field(default_factory=dict)  # by device, for reports
    updates: Sequence[Received] | None = None  # instead of the view's, if some are bounded


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReport:
    """The report on one device's update."""

    weight: float  # its share in its prototype's average
    score: float | None = None  # fraction of the median logits of all teachers that are its own (FedRAD)
    screened: str | None = None  # why it was excluded
    capped: Capped | None = None  # if it reported more examples than were used


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """The next models, and the report of the round."""

    states: Mapping[str, State]  # by prototype
    memory: Memory
    devices: Mapping[str, DeviceReport]
    metrics: Mapping[str, dict[str, float]]  # by prototype: average_accuracy, ensemble_accuracy, distill_steps, ...
    seconds: Mapping[str, float]  # by stage: screen, weigh, average, teach, score, distill, generate
    side_artifact: SideArtifact | None = None  # for devices to learn from in the next round

    def counted(self, device: str, claimed: int) -> int:
        """The examples that a device counted for in this round."""
        report = self.devices.get(device)
        return claimed if report is None or report.capped is None else report.capped.counted
