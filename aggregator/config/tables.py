"""The tables of fleet.toml as structs, and `--set table.key=value`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from aggregator.config.fusion import FUSION_FIELDS
from aggregator.tracking.targets import parse_targets
from core.addresses import parse_address
from core.config_keys import brief, sub_table
from core.errors import ConfigError, EnvelopeError, did_you_mean
from core.limits import DEVICES, LATENT, MEGABYTES, ROUNDS, SECONDS
from core.local_defaults import LocalSettings
from core.logs import LogConfig
from core.settings import LARGEST_FLOAT, Field, Settings, describe, within
from core.settings.assignments import assignments
from transport.config import BROKER_KEYS
from transport.config import ENV as BROKER_ENV
from wire.chunks import DEFAULT_CHUNK
from wire.messages import Task
from wire.task import check_task

__all__ = [
    "ENV",
    "TABLES",
    "FleetTable",
    "FleetTables",
    "LimitConfig",
    "ModelsConfig",
    "MonitorConfig",
    "PrototypesTable",
    "RoundConfig",
    "StateTable",
    "TaskConfig",
    "as_environment",
    "split_tables",
    "with_settings",
]

ENV = "EDGESTILL_AGGREGATOR"
Rate = Annotated[int, within(60, 10**9)]


class FleetTable(Settings, frozen=True, kw_only=True):
    """The table [fleet]."""

    id: str
    seed: Annotated[int, within(0, 2**53)] = 0


class StateTable(Settings, frozen=True, kw_only=True):
    """The table [state]."""

    dir: Path
    key: Path
    keep_rounds: Annotated[int, within(1, ROUNDS.most, "whose updates stay on disk after they were fused")] = 2
    history_rounds: Annotated[int, within(10, ROUNDS.most, "whose records stay in the journal")] = 2000


class ModelsConfig(Settings, frozen=True, kw_only=True):
    """The table [models]: which published models stay on disk; aggregator/storage/retention.py."""

    last: Annotated[int, within(1, ROUNDS.most, "newest models of each prototype; by default all")] | None = None
    every: Annotated[int, within(1, ROUNDS.most, "and those of every so many rounds")] | None = None
    best: Annotated[int, within(0, 1000, "and the most accurate ones of each prototype")] = 1

    def __post_init__(self) -> None:
        if self.last is None and self.every is not None:
            raise ConfigError("'every' is given without 'last', so all models are kept; give 'last'")


def _shape(value: Any) -> tuple[int, ...]:
    """3x32x32, which [3, 32, 32] of a file was made by `split_tables`."""
    sizes = value.lower().split("x") if isinstance(value, str) else [""]
    if not all(re.fullmatch("[0-9]{1,9}", size) and int(size) > 0 for size in sizes) or len(sizes) > 4:
        raise ValueError('write it like "3x32x32", or "64" for text')
    return tuple(map(int, sizes))


def _numbers(value: Any) -> tuple[float, ...]:
    """127.5 or [125.3, 123.0, 113.9] of a file, or 125.3,123.0,113.9 of a variable."""
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
    try:
        if all(type(part) in (int, float, str) and abs(float(part)) <= LARGEST_FLOAT for part in parts) and parts:
            return tuple(map(float, parts))
    except (ValueError, OverflowError):
        pass
    raise ValueError("give one number, or a list of one per channel")


class TaskConfig(Settings, frozen=True, kw_only=True):
    """The table [task]: samples and classes, as every published model tells devices; labelled samples for scoring."""

    input_shape: Annotated[tuple[int, ...], Meta(extra={"parse": _shape})]
    classes: Annotated[int, within(2, 10_000)]
    latent: Annotated[int, within(1, LATENT.most)] = 32
    validation: Annotated[Path, Meta(description=".npz with x, y; see models/samples.py")] | None = None
    class_names: Annotated[tuple[str, ...], Meta(description="of the labels 0, 1, ...")] = ()
    kind: Annotated[Literal["image", "series", "features", "text"], Meta(description="of the samples")] | None = None
    mean: Annotated[tuple[float, ...], Meta(description="one, or one per channel", extra={"parse": _numbers})] = ()
    std: Annotated[tuple[float, ...], Meta(description="likewise; bytes: 0 to 255", extra={"parse": _numbers})] = ()
    sample_rate: Annotated[float, within(1e-6, 1e9, "Hz, of a series")] | None = None

    def __post_init__(self) -> None:
        try:
            check_task(self.message, self.input_shape, self.classes)
        except EnvelopeError as error:
            raise ConfigError(str(error).replace("Task.", "")) from None
        if self.sample_rate is not None and self.kind not in (None, "series"):
            raise ConfigError(f"'sample_rate' is given, but 'kind' is {self.kind!r}; only a series has one")

    @property
    def message(self) -> Task | None:
        """What models say of it; None if the table says nothing that older agents do not know."""
        told = {name: getattr(self, name) for name in Task.__struct_fields__}
        return Task(**told) if any(value not in ((), None) for value in told.values()) else None


class PrototypesTable(Settings, frozen=True, kw_only=True):
    """The table [prototypes]."""

    names: tuple[str, ...]


class RoundConfig(Settings, frozen=True, kw_only=True):
    """The table [round]: how rounds go; `fraction` is C of McMahan et al. 2017."""

    rounds: Annotated[int, within(1, ROUNDS.most)] = 100
    fraction: Annotated[float, within(0, 1)] = 1.0
    min_devices: Annotated[int, within(1, DEVICES.most)] = 1
    quorum: Annotated[float, within(0, 1, "share of the invited devices that must have answered at the deadline")] = 0.5
    deadline_s: Annotated[float, within(0.1, SECONDS.most)] = 3600.0
    target_accuracy: Annotated[float, within(0, 1, "stop when every prototype has it")] | None = None
    update: Literal["state", "delta", "predictor", "onnx"] = "state"
    delta_bits: int = 8
    late: Literal["drop", "keep"] = "drop"
    throttled: Annotated[
        Literal["as-others", "later", "leave-out"], Meta(description="devices that report that they are slowed down")
    ] = "as-others"
    throttled_deadline: Annotated[float, within(1, 100, "their deadline in times of deadline_s, if later")] = 2.0
    mode: Annotated[Literal["sync", "async"], Meta(description="async: fuse whenever `buffer` updates are in")] = "sync"
    buffer: Annotated[int, within(1, DEVICES.most, "updates of one fusion, of asynchronous rounds")] | None = None
    concurrency: Annotated[int, within(0, DEVICES.most, "devices that train at a time; 0: `fraction` of them")] = 0
    staleness: Annotated[float, within(0, 10, "a of the weight (1 + tau)^-a of an update tau versions old")] = 0.5
    max_staleness: Annotated[int, within(0, ROUNDS.most, "versions; older updates are refused")] | None = None

    def __post_init__(self) -> None:
        if self.mode == "async" and self.buffer is None:
            raise ConfigError(
                "'mode' is 'async' without 'buffer'; give buffer = 10, or as many updates as one fusion has"
            )
        if self.mode == "async" and self.late != "drop":
            raise ConfigError("'late' is 'keep', but asynchronous rounds have no late updates; leave late out")
        if self.mode == "sync" and (self.buffer, self.concurrency, self.max_staleness) != (None, 0, None):
            raise ConfigError(
                "'buffer', 'concurrency' and 'max_staleness' are of asynchronous rounds; give mode = 'async'"
            )
        if self.fraction == 0:
            raise ConfigError("'fraction' is 0, which invites nobody; give a number above 0")
        if self.delta_bits not in (1, 2, 4, 8):
            raise ConfigError(f"'delta_bits' is {self.delta_bits}; give 8, 4, 2 or 1")

    @property
    def bits(self) -> int | None:
        """What a job says of bits: only a delta has them."""
        return self.delta_bits if self.update == "delta" else None


class LimitConfig(Settings, frozen=True, kw_only=True):
    """The table [limits]: what one device may ask of the aggregator."""

    update_mb: Annotated[int, within(1, 256)] = 64
    parts_mb: Annotated[int, within(1, MEGABYTES.most, "of unfinished uploads, all devices together")] = 2048
    transfers: Annotated[int, within(1, 1000, "unfinished uploads of one device")] = 2
    messages_per_minute: Rate = 6000  # of one device, like all that follow
    mb_per_minute: Annotated[int, within(1, MEGABYTES.most, "by default four updates")] = 256
    reports_per_minute: Annotated[Rate, Meta(description="messages that are no chunks of updates")] = 600
    transfers_per_minute: Annotated[Rate, Meta(description="updates that are begun")] = 600
    cpu_s_per_minute: Annotated[float, within(0.1, SECONDS.most, "processor time of the service")] = 4.0
    garbage_before_mute: Annotated[int, within(1, 1_000_000)] = 20
    mute_s: Annotated[float, within(0, SECONDS.most)] = 600.0

    @property
    def update_bytes(self) -> int:
        """Of one sealed update."""
        return self.update_mb * 10**6

    @property
    def update_chunks(self) -> int:
        """Of one sealed update, as agents cut it."""
        return -(-self.update_bytes // DEFAULT_CHUNK)

    @property
    def bytes_per_minute(self) -> int:
        """That one device may send."""
        return self.mb_per_minute * 10**6


class MonitorConfig(Settings, frozen=True, kw_only=True):
    """The table [monitor]: what the service shows of itself."""

    metrics: Annotated[str, Meta(description="host:port of /metrics, /healthz and /readyz")] | None = None
    device_labels: Annotated[int, within(0, DEVICES.most, "devices up to which each has metrics of its own")] = 100

    web: Annotated[str, Meta(description="host:port of the page for browsers")] | None = None
    web_cert: Annotated[Path, Meta(description="its certificate, PEM")] | None = None
    web_key: Path | None = None
    runs: Annotated[Path, Meta(description="a folder of simulation runs that the page shows")] | None = None
    track: Annotated[tuple[str, ...], Meta(description="trackers: tensorboard:DIR, mlflow:URI")] = ()

    def __post_init__(self) -> None:
        try:
            parse_targets(self.track)
        except ConfigError as error:
            raise ConfigError(f"'track': {error}") from None
        for name, address in (("metrics", self.metrics), ("web", self.web)):
            try:
                parse_address("127.0.0.1:0" if address is None else address)
            except ConfigError as error:
                raise ConfigError(f"'{name}': {error}") from None
        if (self.web_cert is None) != (self.web_key is None):
            raise ConfigError("'web_cert' and 'web_key' go together; give the one that is missing")


class FleetTables(Settings, frozen=True, kw_only=True):
    """The tables of fleet.toml that are as they are read; [fusion], [limits], [broker] and [devices] are resolved."""

    fleet: FleetTable
    state: StateTable
    task: TaskConfig
    prototypes: PrototypesTable
    round: RoundConfig
    train: LocalSettings
    models: ModelsConfig
    monitor: MonitorConfig
    log: LogConfig


#: The fields of every table that `--set` may name, besides [broker].
TABLES: Mapping[str, Mapping[str, Field]] = {
    **{name: describe(own.table) for name, own in describe(FleetTables).items() if own.table is not None},
    "fusion": FUSION_FIELDS,
    "limits": describe(LimitConfig),
}
_NAMES = (*TABLES, "broker", "devices")
_MANIFEST = ("provision", "group")  # of the same file, for `edgestill provision`: firmware_configs/manifest


def split_tables(tables: Mapping[str, Any], where: str) -> dict[str, dict[str, Any]]:
    """Every table, empty where the file has none; a name that is not one of ours is refused."""
    for name in tables:
        if name not in _NAMES and name not in _MANIFEST:
            hint = did_you_mean(name, (*_NAMES, *_MANIFEST)) or f"; known: {' '.join(_NAMES)}"
            raise ConfigError(f"{where}: unknown table [{name}]{hint}")
    found = {name: sub_table(tables, name, where) for name in _NAMES}
    shape = found["task"].get("input_shape")
    if isinstance(shape, list):
        found["task"] = {**found["task"], "input_shape": "x".join(map(brief, shape))}
    return found


def with_settings(environ: Mapping[str, str], settings: Sequence[str]) -> dict[str, str]:
    """The environment with `--set table.key=value` in front of it; variables that a setting excludes are left out."""
    own = as_environment(settings)
    excluded = {
        f"{ENV}_{table.upper()}_{other.upper()}"
        for table, fields in TABLES.items()
        for key, field in fields.items()
        if f"{ENV}_{table.upper()}_{key.upper()}" in own
        for other in field.extra.get("excludes", ())
    }
    return {**{name: value for name, value in environ.items() if name not in excluded}, **own}


def as_environment(settings: Sequence[str]) -> dict[str, str]:
    """`round.rounds=3` as the variable EDGESTILL_AGGREGATOR_ROUND_ROUNDS=3, given for this once."""
    tables = {**TABLES, "broker": BROKER_KEYS}
    prefixes = {**{name: f"{ENV}_{name.upper()}" for name in tables}, "broker": BROKER_ENV}
    return assignments(settings, tables, prefixes, example="round.rounds=3")
