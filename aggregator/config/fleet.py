"""fleet.toml: the configuration of the aggregator, read once and checked.

A commented example is `examples/fleet.toml`; `edgestill config check` prints what a file resolves to. A value comes
from the first that has it: `--set table.key=value`, the environment variable EDGESTILL_AGGREGATOR_<TABLE>_<KEY>
(EDGESTILL_BROKER_<KEY> for the broker), the file, the default. Relative paths of the file are below its own folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from aggregator.config.devices import device_keys
from aggregator.config.fusion import FusionConfig, fusion_config
from aggregator.config.tables import (
    ENV,
    FleetTables,
    LimitConfig,
    ModelsConfig,
    MonitorConfig,
    RoundConfig,
    TaskConfig,
    split_tables,
    with_settings,
)
from core.config_keys import read_toml
from core.errors import ConfigError, EdgestillError
from core.limits import CLIP
from core.local_defaults import LocalSettings, check_bounds, with_defaults
from core.logs import LogConfig
from core.settings import Settings, given, plain, read_tables, replace
from models.spec import PrototypeSpec, parse_prototype
from transport.config import BrokerConfig, broker_config
from wire.ids import check_id
from wire.keys import Ed25519PublicKey, public_key_hex
from wire.messages import Hyper, UpdateKind

__all__ = [
    "FleetConfig",
    "LimitConfig",
    "MonitorConfig",
    "RoundConfig",
    "TaskConfig",
    "check_fleet_config",
    "load_fleet_config",
]

#: What jobs say of local training in `Hyper.extra`, where it is not 0: agents of an older version pass it over.
_TOLD = ("prox", "clip", "least_steps", "most_steps")
#: Keys of [state] that are numbers of rounds.
KEPT = ("keep_rounds", "history_rounds")


class FleetConfig(Settings, frozen=True, kw_only=True):
    """One fleet and its aggregator."""

    path: Path
    fleet: str
    seed: int
    broker: BrokerConfig
    state: Path
    key: Path
    keep_rounds: int  # whose updates stay on disk after they were fused
    history_rounds: int  # whose records stay in the journal
    task: TaskConfig
    prototypes: tuple[str, ...]
    round: RoundConfig
    hyper: Hyper
    fusion: FusionConfig
    devices: Mapping[str, Ed25519PublicKey]
    limits: LimitConfig
    monitor: MonitorConfig
    models: ModelsConfig = ModelsConfig()
    log: LogConfig

    @property
    def recipe(self) -> str:
        """The recipe and its overrides as the journal has them."""
        return self.fusion.text

    @property
    def mode(self) -> str:
        """sync or async: how rounds go."""
        return self.round.mode

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
            "broker": {k: v for k, v in plain(self.broker).items() if k != "password"},
            "state": {"dir": str(self.state), "key": str(self.key), **{name: getattr(self, name) for name in KEPT}},
            "task": plain(self.task),
            "prototypes": {"names": list(self.prototypes)},
            "round": plain(self.round),
            "train": _hyper_json(self.hyper),
            "fusion": self.fusion.to_json(),
            "devices": {name: public_key_hex(key) for name, key in sorted(self.devices.items())},
            "limits": plain(self.limits),
            "models": plain(self.models),
            "monitor": plain(self.monitor),
            "log": plain(self.log),
        }


def load_fleet_config(
    path: Path | str, settings: Sequence[str] = (), *, environ: Mapping[str, str] | None = None
) -> FleetConfig:
    """Read and check a fleet.toml; `settings` are `table.key=value` and come first."""
    path = Path(path)
    base = path.resolve().parent
    environ = with_settings(os.environ if environ is None else environ, settings)
    file = split_tables(read_toml(path), str(path))
    tables = read_tables(FleetTables, file, str(path), env=ENV, environ=environ, base=base)
    limits = _limits(file["limits"], f"{path} [limits]", environ)
    broker = broker_config(file["broker"], f"{path} [broker]", base, environ=environ)
    try:
        fusion = fusion_config(
            file["fusion"],
            f"{path} [fusion]",
            base,
            env=f"{ENV}_FUSION",
            environ=environ,
            labelled=tables.task.validation is not None,
        )
        devices = device_keys(file["devices"], f"{path} [devices]", base)
        return _config(path, tables, broker=broker, fusion=fusion, devices=devices, limits=limits)
    except ConfigError:
        raise
    except EdgestillError as error:  # a bad id, a bad key, hyper-parameters that no job could carry
        raise ConfigError(f"{path}: {error}") from error


def check_fleet_config(path: Path | str, settings: Sequence[str] = ()) -> dict[str, Any]:
    """The resolved configuration of a fleet.toml for `edgestill config check`; ConfigError says what is wrong."""
    return load_fleet_config(path, settings).to_json()


def _config(path: Path, tables: FleetTables, *, fusion: FusionConfig, **parts: Any) -> FleetConfig:
    check_id(tables.fleet.id, f"{path} [fleet]: 'id'")
    config = FleetConfig(
        path=path,
        fleet=tables.fleet.id,
        seed=tables.fleet.seed,
        state=tables.state.dir,
        key=tables.state.key,
        **{name: getattr(tables.state, name) for name in KEPT},
        task=tables.task,
        prototypes=_prototypes(tables.prototypes.names, path),
        round=tables.round,
        hyper=_hyper(tables.train, tables.fleet.seed, fusion.recipe.local, path),
        fusion=fusion,
        models=tables.models,
        monitor=tables.monitor,
        log=tables.log,
        **parts,
    )
    for name in config.prototypes:
        config.spec(name)
    try:
        fusion.recipe.check_update(config.round.update)
        if config.round.mode == "async":
            fusion.recipe.check_asynchronous()
    except ConfigError as error:
        raise ConfigError(f"{path} [round]: {error}") from None
    if config.round.target_accuracy is not None and config.task.validation is None:
        raise ConfigError(f"{path} [round]: 'target_accuracy' needs labelled samples; give [task] validation")
    return config


def _prototypes(names: tuple[str, ...], path: Path) -> tuple[str, ...]:
    where = f"{path} [prototypes]: 'names'"
    try:
        full = tuple(f"{arch}:{precision}" for arch, precision in map(parse_prototype, names))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    if not full or len(set(full)) < len(full):
        raise ConfigError(f'{where} is {list(names)}; give one or more, each once, such as ["cnn:fp32"]')
    return full


def _hyper(train: LocalSettings, seed: int, local: Mapping[str, float], path: Path) -> Hyper:
    if train.epochs is not None and train.steps is not None:
        raise ConfigError(f"{path} [train]: 'epochs' and 'steps' are both given; keep one")
    found = {"prox": local.get("prox", 0.0), **with_defaults(**asdict(train))}
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


def _limits(table: Mapping[str, Any], where: str, environ: Mapping[str, str]) -> LimitConfig:
    values = given(LimitConfig, table, where, env=f"{ENV}_LIMITS", environ=environ)
    limits = LimitConfig(**values)
    update = limits.update_mb
    if "mb_per_minute" not in values:
        limits = replace(limits, mb_per_minute=4 * update)
    if limits.mb_per_minute < update:
        shown = limits.mb_per_minute
        raise ConfigError(f"{where}: 'mb_per_minute' is {shown}, less than an update may have; give {update} or more")
    if limits.messages_per_minute < limits.update_chunks:
        raise ConfigError(
            f"{where}: 'messages_per_minute' is {limits.messages_per_minute}, an update of {update} MB has"
            f" {limits.update_chunks} chunks; give as many or more"
        )
    return limits
