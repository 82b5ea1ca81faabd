"""fleet.toml: everything the aggregator is told, read once and checked.

A commented example is `examples/fleet.toml`; `edgestill config check` prints what a file resolves to. A value comes
from the first that has it: `--set table.key=value`, the environment variable EDGESTILL_AGGREGATOR_<TABLE>_<KEY>
(EDGESTILL_BROKER_<KEY> for the broker), the file, the default. Relative paths of the file are below its own folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aggregator.config.fusion import FusionConfig, fusion_config
from aggregator.config.tables import ENV, TABLES, as_environment, device_keys, split_tables
from core.config_keys import brief, read_toml, take
from core.errors import ConfigError, EdgestillError
from core.limits import CLIP
from core.local_defaults import check_bounds, with_defaults
from models.spec import PrototypeSpec, parse_prototype
from transport.config import BrokerConfig, broker_config
from wire.chunks import DEFAULT_CHUNK
from wire.ids import check_id
from wire.keys import Ed25519PublicKey, public_key_hex
from wire.messages import Hyper, UpdateKind

__all__ = ["FleetConfig", "LimitConfig", "RoundConfig", "TaskConfig", "check_fleet_config", "load_fleet_config"]

#: What jobs say of local training in `Hyper.extra`, where it is not 0: agents of an older version pass it over.
_TOLD = ("prox", "clip", "least_steps", "most_steps")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConfig:
    """What the fleet learns: the samples' shape, the classes, and where labelled samples for scoring lie."""

    input_shape: tuple[int, ...]
    classes: int
    latent: int
    validation: Path | None = None  # .npz with x, y; see models/samples.py


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundConfig:
    """How rounds go; `fraction` is C of McMahan et al. 2017."""

    rounds: int
    fraction: float
    min_devices: int
    quorum: float  # share of the invited devices that must have answered at the deadline
    deadline_s: float
    target_accuracy: float | None  # stop when every prototype has it
    update: UpdateKind
    delta_bits: int
    late: str  # drop | keep

    @property
    def bits(self) -> int | None:
        """What a job says of bits: only a delta has them."""
        return self.delta_bits if self.update == "delta" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitConfig:
    """What one device may ask of the aggregator."""

    update_mb: int
    parts_mb: int  # of unfinished uploads, all devices together
    transfers: int  # unfinished uploads of one device
    messages_per_minute: int  # of one device, like all that follow
    mb_per_minute: int
    reports_per_minute: int  # messages that are no chunks of updates
    transfers_per_minute: int  # updates that are begun
    cpu_s_per_minute: float  # processor time of the service
    garbage_before_mute: int
    mute_s: float

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


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetConfig:
    """One fleet and its aggregator."""

    path: Path
    fleet: str
    seed: int
    broker: BrokerConfig
    state: Path
    key: Path
    keep_rounds: int  # whose updates stay on disk after they were fused
    task: TaskConfig
    prototypes: tuple[str, ...]
    round: RoundConfig
    hyper: Hyper
    fusion: FusionConfig
    devices: Mapping[str, Ed25519PublicKey]
    limits: LimitConfig
    log_format: str
    log_level: str

    @property
    def recipe(self) -> str:
        """The recipe and its overrides as the journal has them."""
        return self.fusion.text

    @property
    def update(self) -> UpdateKind:
        """What devices are asked to send: what the recipe says, or [round] update."""
        kind: UpdateKind = self.fusion.recipe.update or self.round.update  # type: ignore[assignment]
        return kind

    def spec(self, prototype: str) -> PrototypeSpec:
        """The prototype called `prototype`, ready to be built."""
        task = self.task
        return PrototypeSpec(*parse_prototype(prototype), task.input_shape, task.classes, task.latent)

    def to_json(self) -> dict[str, Any]:
        """The resolved configuration, without secrets."""
        return {
            "fleet": {"id": self.fleet, "seed": self.seed},
            "broker": _plain({k: v for k, v in asdict(self.broker).items() if k != "password"}),
            "state": _plain({"dir": self.state, "key": self.key, "keep_rounds": self.keep_rounds}),
            "task": _plain(asdict(self.task)),
            "prototypes": {"names": list(self.prototypes)},
            "round": asdict(self.round),
            "train": _hyper_json(self.hyper),
            "fusion": self.fusion.to_json(),
            "devices": {name: public_key_hex(key) for name, key in sorted(self.devices.items())},
            "limits": asdict(self.limits),
            "log": {"format": self.log_format, "level": self.log_level},
        }


def load_fleet_config(
    path: Path | str, settings: Sequence[str] = (), *, environ: Mapping[str, str] | None = None
) -> FleetConfig:
    """Read and check a fleet.toml; `settings` are `table.key=value` and come first."""
    path = Path(path)
    base = path.resolve().parent
    environ = {**(os.environ if environ is None else environ), **as_environment(settings)}
    tables = split_tables(read_toml(path), str(path))
    values = {
        name: take(tables[name], f"{path} [{name}]", keys, env=f"{ENV}_{name.upper()}", environ=environ, base=base)
        for name, keys in TABLES.items()
    }
    broker = broker_config(tables["broker"], f"{path} [broker]", base, environ=environ)
    try:
        return _config(path, values, broker, device_keys(tables["devices"], f"{path} [devices]", base))
    except ConfigError:
        raise
    except EdgestillError as error:  # a bad id, a bad key, hyper-parameters that no job could carry
        raise ConfigError(f"{path}: {error}") from error


def check_fleet_config(path: Path | str) -> dict[str, Any]:
    """The resolved configuration of a fleet.toml for `edgestill config check`; ConfigError says what is wrong."""
    return load_fleet_config(path).to_json()


def _config(
    path: Path, values: dict[str, dict[str, Any]], broker: BrokerConfig, devices: dict[str, Ed25519PublicKey]
) -> FleetConfig:
    check_id(values["fleet"]["id"], f"{path} [fleet]: 'id'")
    task = _task(values["task"], path)
    fusion = fusion_config(
        values["fusion"], f"{path} [fusion]", path.resolve().parent, labelled=task.validation is not None
    )
    config = FleetConfig(
        path=path,
        fleet=values["fleet"]["id"],
        seed=values["fleet"]["seed"],
        broker=broker,
        state=values["state"]["dir"],
        key=values["state"]["key"],
        keep_rounds=values["state"]["keep_rounds"],
        task=task,
        prototypes=_prototypes(values["prototypes"]["names"], path),
        round=RoundConfig(**values["round"]),
        hyper=_hyper(values["train"], values["fleet"]["seed"], fusion.recipe.local, path),
        fusion=fusion,
        devices=devices,
        limits=_limits(values["limits"], path),
        log_format=values["log"]["format"],
        log_level=values["log"]["level"],
    )
    for name in config.prototypes:
        config.spec(name)
    if config.round.fraction == 0:
        raise ConfigError(f"{path} [round]: 'fraction' is 0, which invites nobody; give a number above 0")
    if config.round.delta_bits not in (1, 2, 4, 8):
        raise ConfigError(f"{path} [round]: 'delta_bits' is {config.round.delta_bits}; give 8, 4, 2 or 1")
    try:
        fusion.recipe.check_update(config.round.update)
    except ConfigError as error:
        raise ConfigError(f"{path} [round]: {error}") from None
    if config.round.target_accuracy is not None and config.task.validation is None:
        raise ConfigError(f"{path} [round]: 'target_accuracy' needs labelled samples; give [task] validation")
    return config


def _task(values: dict[str, Any], path: Path) -> TaskConfig:
    shape = values.pop("input_shape")
    sizes = shape.lower().split("x")
    if not all(re.fullmatch("[0-9]{1,9}", size) and int(size) > 0 for size in sizes) or len(sizes) > 4:
        raise ConfigError(
            f'{path} [task]: \'input_shape\' is {brief(shape)}; write it like "3x32x32", or "64" for text'
        )
    return TaskConfig(input_shape=tuple(map(int, sizes)), **values)


def _prototypes(names: tuple[str, ...], path: Path) -> tuple[str, ...]:
    where = f"{path} [prototypes]: 'names'"
    try:
        full = tuple(f"{arch}:{precision}" for arch, precision in map(parse_prototype, names))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    if not full or len(set(full)) < len(full):
        raise ConfigError(f'{where} is {list(names)}; give one or more, each once, such as ["cnn:fp32"]')
    return full


def _hyper(values: dict[str, Any], seed: int, local: Mapping[str, float], path: Path) -> Hyper:
    if values["epochs"] is not None and values["steps"] is not None:
        raise ConfigError(f"{path} [train]: 'epochs' and 'steps' are both given; keep one")
    if values["lr"] == 0:
        raise ConfigError(f"{path} [train]: 'lr' is 0; give a positive number")
    found = {"prox": local.get("prox", 0.0), **with_defaults(**values)}
    if found["clip"] and found["clip"] < CLIP.least:
        raise ConfigError(f"{path} [train]: 'clip' is {found['clip']}; give 0 for none, or at least {CLIP.least}")
    try:
        check_bounds(found["steps"], found["least_steps"], found["most_steps"])
    except ConfigError as error:
        raise ConfigError(f"{path} [train]: {error}") from None
    told = {name: float(found.pop(name)) for name in _TOLD}
    extra = {**local, **told}
    return Hyper(seed=seed, extra={name: value for name, value in extra.items() if value or name not in _TOLD}, **found)


def _hyper_json(hyper: Hyper) -> dict[str, Any]:
    names = ("lr", "batch_size", "epochs", "steps", "momentum", "weight_decay")
    return {name: getattr(hyper, name) for name in names} | _told_json(hyper.extra)


def _told_json(extra: Mapping[str, float]) -> dict[str, Any]:
    found = {name: extra.get(name, 0.0) for name in _TOLD}
    return {name: int(value) if name.endswith("_steps") else value for name, value in found.items()}


def _limits(values: dict[str, Any], path: Path) -> LimitConfig:
    where, update = f"{path} [limits]", values["update_mb"]
    given = values.pop("mb_per_minute")
    limits = LimitConfig(**values, mb_per_minute=4 * update if given is None else given)
    if limits.mb_per_minute < update:
        raise ConfigError(f"{where}: 'mb_per_minute' is {given}, less than an update may have; give {update} or more")
    if limits.messages_per_minute < limits.update_chunks:
        raise ConfigError(
            f"{where}: 'messages_per_minute' is {limits.messages_per_minute}, an update of {update} MB has"
            f" {limits.update_chunks} chunks; give as many or more"
        )
    return limits


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    """Paths as strings, tables within tables too."""
    return {
        name: _plain(value) if isinstance(value, dict) else str(value) if isinstance(value, Path) else value
        for name, value in facts.items()
    }
