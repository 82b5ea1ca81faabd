"""The typed messages that devices and the aggregator exchange: frozen, complete, and checked on both sides.

A message travels as a MessagePack array: its tag, then its fields in the order written here. Fields are never
reordered or dropped; a new one goes last, with a default, and raises the version of the envelopes that carry the
message (`VERSIONS` in `wire/envelope.py`), so that an older reader reports "update" and not "unknown field"; or, like
the code of a `Rejected`, it is sent only to a reader that has announced support for it; or, like the task of a
`ModelHeader` and `About.data`, it is sent, and raises the version, only where it is given. Unknown fields are refused.
`encode_message` decodes what it wrote, so a message that no receiver would accept cannot be sent.

    State      up    the device is online, offline or lost
        About      up    board, prototype and samples of the device
            DataState    what it lacks, waits for, or cannot use
    Job        down  train from this model in this round
    Offer      down  install this model; nothing to train
    Accepted, Rejected, Missing      down: the three answers to an update, together `Ack`
        Metrics    up    telemetry of the device
    Desired    down  settings that a device should apply
    Reported   up    which of them it applied or refused
    Installing up    why a board could not install its agent
    Upgrade    down  another version of edgestill to install
    Upgraded   up    how far that is
    Enrol      up    a board requests its certificate, see `wire/enrolment.py`
    Enrolled   down  the answer
        UpdateHeader     precedes the tensors of an update, see `wire/headers.py`
    ModelHeader      precedes the tensors of a published model
        Task         what the samples and classes of the fleet are
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from core.errors import EnvelopeError
from wire.refusals import RefusalReason

__all__ = [
    "COMPUTE",
    "MAX_COUNT",
    "MODEL_STAYS",
    "TAKES_UPGRADES",
    "About",
    "Accepted",
    "Ack",
    "DataState",
    "Desired",
    "Enrol",
    "Enrolled",
    "Hyper",
    "Installing",
    "Job",
    "Message",
    "Metrics",
    "Missing",
    "ModelHeader",
    "Offer",
    "Rejected",
    "Reported",
    "State",
    "Task",
    "UpdateHeader",
    "UpdateKind",
    "Upgrade",
    "UpgradePhase",
    "Upgraded",
]

Id: TypeAlias = Annotated[str, Meta(pattern=r"\A[a-z0-9-]{1,48}\Z")]
IdOrNone: TypeAlias = Annotated[str, Meta(pattern=r"\A[a-z0-9-]{0,48}\Z")]  # "": none
Digest: TypeAlias = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
PrototypeName: TypeAlias = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_.-]{1,64}:[a-z0-9]{1,16}\Z")]
Text: TypeAlias = Annotated[str, Meta(max_length=200)]
Round: TypeAlias = Annotated[int, Meta(ge=1, le=2**32 - 1)]
MAX_COUNT = 2**53  # of a count: whole numbers up to it are exact as float64, and fit the journal
Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=2**32 - 1)]
Amount: TypeAlias = Annotated[float, Meta(ge=0)]
LabelCounts: TypeAlias = Annotated[tuple[Count, ...], Meta(max_length=10_000)]
Values: TypeAlias = Annotated[dict[Text, float], Meta(max_length=64)]
Certificate: TypeAlias = Annotated[bytes, Meta(max_length=4096)]
Settings: TypeAlias = Annotated[dict[Text, Text], Meta(max_length=64)]
Ranges: TypeAlias = Annotated[tuple[tuple[Count, Count], ...], Meta(max_length=1024)]
ClassName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=100)]
PerChannel: TypeAlias = Annotated[tuple[float, ...], Meta(max_length=256)]
MAX_CLASS_NAMES = 24 * 1024  # bytes of all class names: a header has 64 KiB for them and its parents

#: Everything, a difference to the received model, the predictor only, a graph, logits by label, or no tensor at all.
UpdateKind = Literal["state", "delta", "predictor", "onnx", "logits", "none"]
#: Key of `About.versions`: the compute device of the last training, such as `cuda:0 (Orin)`.
COMPUTE = "compute"
#: Key and value of `About.versions`: the device can install another version by itself. Another value says why not.
TAKES_UPGRADES = ("upgrade", "1")
#: Of an upgrade on a device, in order; the last three are final.
UpgradePhase = Literal["fetching", "installing", "trial", "committed", "back", "refused"]
#: Kinds without any tensor of a model: the device keeps its own model.
MODEL_STAYS: tuple[UpdateKind, ...] = ("logits", "none")


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True, kw_only=True):
    """Base of all messages. Every float is finite: msgspec accepts NaN, and NaN passes its range checks."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not _finite(getattr(self, name)):
                raise EnvelopeError(f"{type(self).__name__}.{name}: holds NaN or infinity")


class State(Message, frozen=True, kw_only=True, tag="state"):
    """Whether a device is online. `lost` is its last will; the will of an older session cannot end a newer one."""

    status: Literal["online", "offline", "lost"]
    session: Count  # increases with every start of the agent


class DataState(Message, frozen=True, kw_only=True):
    """What a device has to say of its samples besides their number; `wire/task.py` has what a class is."""

    waiting: Text = ""  # why it cannot train yet; it is not invited while there is a reason
    unlabeled: Count = 0
    rejected: Count = 0  # files and rows that are set aside
    reason: Text = ""  # of the first of them
    unknown: Annotated[dict[Text, Count], Meta(max_length=100)] = {}  # samples of classes that the task does not have
    lacks: Annotated[tuple[ClassName, ...], Meta(max_length=100)] = ()  # classes of the task without a sample


class About(Message, frozen=True, kw_only=True, tag="about"):
    """Board, prototype and samples of a device."""

    board: Text
    prototype: PrototypeName
    precision: Annotated[str, Meta(pattern=r"\A[a-z0-9]{1,16}\Z")]
    label_counts: LabelCounts  # examples per class
    noised: bool = False  # whether noise was added to the label counts
    versions: Annotated[dict[Text, Text], Meta(max_length=64)] = {}
    data: DataState | None = None  # in envelopes of version 3

    def __post_init__(self) -> None:
        Message.__post_init__(self)
        if (total := sum(self.label_counts)) > MAX_COUNT:
            raise EnvelopeError(f"About.label_counts: sum to {total}, more than a count can be ({MAX_COUNT})")


class Hyper(Message, frozen=True, kw_only=True):
    """How to train locally; symbols as in McMahan et al. 2017, Algorithm 1."""

    batch_size: Positive  # B
    lr: Amount  # eta
    epochs: Positive | None = None  # E; exactly one of epochs and steps is given
    steps: Positive | None = None
    momentum: Amount = 0.0
    weight_decay: Amount = 0.0
    seed: Count = 0
    extra: Values = {}  # parameters specific to one recipe, by name

    def __post_init__(self) -> None:
        Message.__post_init__(self)
        if (self.epochs is None) == (self.steps is None):
            raise EnvelopeError("Hyper.epochs, Hyper.steps: give exactly one of them")


class Job(Message, frozen=True, kw_only=True, tag="job"):
    """The work of one device in one round.

    It names its device, because otherwise one signature would be valid for every device. Epoch, round and model number
    only increase, so a device can tell a replayed job from a new one: `edge_agent/protocol/replay.py`.
    """

    round: Round
    deadline: Amount  # seconds since 1970, UTC
    prototype: PrototypeName
    update: UpdateKind
    hyper: Hyper
    model: Digest  # of the artifact to start from
    bits: Literal[1, 2, 4, 8] | None = None  # of a delta
    side_artifact: Digest | None = None  # what to learn from beside the model
    device: IdOrNone = ""  # envelopes of version 1 do not name it
    epoch: Count = 0  # of the aggregator's journal: a restored backup begins a new one
    number: Count = 0  # of the model, in the order of publication

    def __post_init__(self) -> None:
        Message.__post_init__(self)
        if (self.update == "delta") != (self.bits is not None):
            raise EnvelopeError(f"Job.bits: is {self.bits} with update {self.update!r}; a delta has bits, no other")


class Offer(Message, frozen=True, kw_only=True, tag="offer"):
    """A model to install without training: the newest of the device's prototype. Sent on the topic of jobs."""

    round: Count  # after which it was fused; 0: the start
    prototype: PrototypeName
    model: Digest
    side_artifact: Digest | None = None  # what to learn from beside the model
    device: IdOrNone = ""  # as in `Job`
    epoch: Count = 0
    number: Count = 0


class Accepted(Message, frozen=True, kw_only=True, tag="accepted"):
    """The update is durable; the device may delete it."""

    transfer: Id
    round: Round


class Rejected(Message, frozen=True, kw_only=True, tag="rejected"):
    """The update cannot be used, and why; sending it again does not help.

    `reason` is a text for people, `why` a code for decisions. The code is sent only to agents whose `About.versions`
    has `READS_CODES`; without it the encoding is the one that older agents read.
    """

    transfer: Id
    round: Round
    reason: Annotated[str, Meta(min_length=1, max_length=500)]
    why: RefusalReason | None = None


class Missing(Message, frozen=True, kw_only=True, tag="missing"):
    """Chunks to send again: half-open ranges of their numbers, ascending."""

    transfer: Id
    ranges: Annotated[Ranges, Meta(min_length=1)]

    def __post_init__(self) -> None:
        end = -1
        for start, stop in self.ranges:
            if not end < start < stop:
                raise EnvelopeError(f"Missing.ranges: {start} .. {stop} is empty, or not after the range before it")
            end = stop


#: The three answers to an update.
Ack: TypeAlias = Accepted | Rejected | Missing


class Metrics(Message, frozen=True, kw_only=True, tag="metrics"):
    """Telemetry of a device; None for values that the board cannot measure."""

    round: Count = 0  # 0: between rounds
    train_loss: float | None = None
    seconds: Amount | None = None
    temperature_c: float | None = None
    memory_mb: Amount | None = None
    bytes_up: Count = 0
    bytes_down: Count = 0
    problem: Text | None = None  # why the device cannot finish this round


class Desired(Message, frozen=True, kw_only=True, tag="desired"):
    """All settings of one device that differ from its agent.toml, as `section.key` and the text of the value.

    It names its device, because otherwise one signature would be valid for every device; and a later version replaces
    an earlier one, so that a replayed message reverts nothing.
    """

    device: Id
    version: Annotated[int, Meta(ge=1, le=2**53)]
    settings: Settings = {}


class Reported(Message, frozen=True, kw_only=True, tag="reported"):
    """The result of applying `Desired` of this version."""

    version: Annotated[int, Meta(ge=1, le=2**53)]
    status: Literal["applied", "rolled-back"]
    settings: Settings = {}  # in effect now
    refused: Settings = {}  # and why
    reason: Text = ""  # of a rollback


class Installing(Message, frozen=True, kw_only=True, tag="installing"):
    """Why the installation on a board has failed.

    A script of the board's kit writes it without edgestill: `firmware_configs/on_board/report_failure.py`. The number
    is the time, or the previous one plus one, whichever is larger, so that a replayed report is known as such.
    """

    number: Positive
    reason: Annotated[str, Meta(min_length=1, max_length=200)]


class Upgrade(Message, frozen=True, kw_only=True, tag="upgrade"):
    """Another version of edgestill for this device: install this bundle (firmware_configs/kits/upgrades/bundle.py).

    It is sent only to agents whose `About.versions` has `TAKES_UPGRADES`. It names its device, because otherwise one
    signature would be valid for every device. The bundle carries a signature of its own, by a key that the aggregator
    does not have; its number only increases, so that a replayed message brings no older version back.
    """

    device: Id
    number: Annotated[int, Meta(ge=1, le=2**53)]  # of the bundle
    bundle: Digest
    version: Text


class Upgraded(Message, frozen=True, kw_only=True, tag="upgraded"):
    """How far an upgrade is; sent only by devices that were offered one."""

    number: Annotated[int, Meta(ge=1, le=2**53)]
    phase: UpgradePhase
    version: Text  # of the agent that says so
    reason: Text = ""  # of going back, or of a refusal
    progress: Annotated[float, Meta(ge=0, le=1)] = 0.0  # of the transfer


class Enrol(Message, frozen=True, kw_only=True, tag="enrol"):
    """A board has generated its keys, and requests a certificate."""

    device: Id
    csr: Certificate  # DER, for the TLS key
    claim: Certificate  # DER, of the kit
    proof: Annotated[bytes, Meta(max_length=256)]  # by the claim's key, over the rest


class Enrolled(Message, frozen=True, kw_only=True, tag="enrolled"):
    """The answer to a board's request; valid only for the keys with this fingerprint."""

    device: Id
    keys: Digest
    status: Literal["waiting", "approved", "refused"]
    certificate: Certificate = b""  # DER
    reason: Text = ""


class UpdateHeader(Message, frozen=True, kw_only=True, tag="update"):
    """Metadata of an update."""

    round: Round
    device: Id
    prototype: PrototypeName
    update: UpdateKind
    num_examples: Count  # n_k
    label_counts: LabelCounts
    base: Digest | None  # of the model that training started from
    metrics: Values = {}  # e.g. train_loss, seconds


class Task(Message, frozen=True, kw_only=True):
    """What samples and classes are, the same on every device: a model is applied to (x - mean) / std.

    A class name is one that a folder can have: printable, without slashes, dots or spaces at its ends.
    """

    class_names: Annotated[tuple[ClassName, ...], Meta(max_length=10_000)] = ()  # in the order of the labels
    kind: Literal["image", "series", "features", "text"] | None = None
    mean: PerChannel = ()  # one number, or one per channel, in units of the stored samples: bytes of an image
    std: PerChannel = ()
    sample_rate: float | None = None  # Hz, of a series

    def __post_init__(self) -> None:
        Message.__post_init__(self)
        names = self.class_names
        for name in names:
            if not name.isprintable() or name != name.strip(" .") or "/" in name or "\\" in name:
                raise EnvelopeError(f"Task.class_names: {name!r} cannot name a folder; use letters, digits, - and _")
        if len(set(names)) < len(names):
            raise EnvelopeError("Task.class_names: a name is there twice")
        if sum(len(name.encode()) + 2 for name in names) > MAX_CLASS_NAMES:
            raise EnvelopeError(f"Task.class_names: more than {MAX_CLASS_NAMES} bytes in all; shorten them")
        if bool(self.mean) != bool(self.std) or len({1, len(self.mean or (0,)), len(self.std or (0,))}) > 2:
            raise EnvelopeError("Task.mean, Task.std: give both, each one number or one per channel")
        if any(not (math.isfinite(v) and v > 0) for v in self.std) or not all(map(math.isfinite, self.mean)):
            raise EnvelopeError("Task.mean, Task.std: must be finite, std above 0")
        if self.sample_rate is not None and self.sample_rate <= 0:
            raise EnvelopeError(f"Task.sample_rate: is {self.sample_rate:g}, must be above 0")


class ModelHeader(Message, frozen=True, kw_only=True, tag="model"):
    """Metadata of a published model: enough to build the prototype and to trace its lineage."""

    round: Count  # after which it was fused; 0: the start
    prototype: PrototypeName
    input_shape: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=4)]
    classes: Positive
    latent: Positive
    recipe: Text
    parents: Annotated[tuple[Digest, ...], Meta(max_length=900)] = ()  # the model before, then updates
    metrics: Values = {}
    task: Task | None = None  # in envelopes of version 3


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return all(map(_finite, value.values())) if isinstance(value, dict) else True
