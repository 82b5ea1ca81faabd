"""agent.toml: what one device is told, checked once. Imports no torch.

A value comes from the first that has it: `--set section.key=value`, the environment variable
EDGESTILL_AGENT_<SECTION>_<KEY> (EDGESTILL_BROKER_<KEY> for the broker), the file, the default. A setting is the
variable given for this once, so both are read, and refused, alike. `examples/agent.toml`
shows every key; relative paths of the file are below its own folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from core.config_keys import Key, read_toml, sub_table, take
from core.errors import ConfigError, TopicError, did_you_mean
from core.limits import MEGABYTES, SAMPLES, SECONDS, WEIGHT
from core.local_defaults import FAST
from core.logs import FORMATS, LEVELS
from models.spec import parse_prototype
from quant.precision import Precision
from transport.config import ENV as BROKER_ENV
from transport.config import BrokerConfig, broker_config
from wire.ids import check_device, check_id, digest_of
from wire.keys import Ed25519PublicKey, load_public_key, public_key_from_hex

__all__ = [
    "AgentConfig",
    "DataConfig",
    "EnrolConfig",
    "LogConfig",
    "TrainConfig",
    "UpdateConfig",
    "check_agent_config",
    "enrolled",
    "parse_settings",
    "read_agent_config",
]

ENV = "EDGESTILL_AGENT"
_BROKER_KEYS = ("host", "port", "username", "password", "password_file", "keepalive_s", "protocol")
KINDS = ("job", "state", "delta", "predictor", "onnx")
HEX_KEY = re.compile(r"[0-9a-fA-F]{64}")
TABLES: dict[str, dict[str, Key]] = {
    "agent": {
        "fleet": Key(str),
        "device": Key(str),
        "state_dir": Key(Path),
        "board": Key(str, "unknown"),
        "cache_mb": Key(int, 256, least=1, most=MEGABYTES.most),
    },
    "keys": {"private": Key(Path, None), "aggregator": Key(str)},
    "enrol": {"cert": Key(Path, None), "key": Key(Path, None)},
    "model": {"prototype": Key(str), "graph": Key(Path, None)},
    "data": {
        "path": Key(Path),
        "validation": Key(float, 0.0, least=0, most=0.9),
        "refuse_worse": Key(bool, False),
        "count_epsilon": Key(float, None, least=0.001, most=WEIGHT.most),
        "count_bins": Key(int, None, least=2, most=SAMPLES.most),
    },
    "train": {
        "mode": Key(str, "full", choices=("full", "light")),
        "threads": Key(int, 1, least=1, most=1024),
        "memory_mb": Key(int, None, least=64, most=MEGABYTES.most),
        "max_seconds": Key(float, 300.0, least=1, most=SECONDS.most),
        "nice": Key(int, 5, least=0, most=19),
        "fast": Key(str, "auto", choices=FAST),
    },
    "update": {
        "kind": Key(str, "job", choices=KINDS),
        "delta_bits": Key(int, None),
        "floats": Key(str, "auto", choices=("auto", "fp16", "fp32")),
    },
    "log": {"format": Key(str, "line", choices=FORMATS), "level": Key(str, "info", choices=LEVELS)},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig:
    """The device's own samples."""

    path: Path  # .npz with x and y
    validation: float = 0.0  # the fraction held out of training
    refuse_worse: bool = False  # keep the current model if the new one is worse on the held-out samples
    count_epsilon: float | None = None  # label counts leave the device with noise: edge_agent/training/label_privacy.py
    count_bins: int | None = None  # and rounded to multiples of this


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """The training child: whether it holds torch, and its limits."""

    mode: str = "full"  # or light: the predictor alone, in NumPy, under the frozen extractor of [model] graph
    threads: int = 1
    memory_mb: int | None = None
    max_seconds: float = 300.0  # without any progress
    nice: int = 5
    fast: str = "auto"  # or off: local SGD without hand-written fast paths


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConfig:
    """What goes up."""

    kind: str = "job"  # what the job says, or always this
    delta_bits: int | None = None
    floats: str = "auto"  # fp32 for fp32 prototypes, fp16 for quantized ones


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """How the agent logs."""

    format: str = "line"
    level: str = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrolConfig:
    """A claim, with which a board that makes its own keys gets its certificate: edge_agent/enrolment.py."""

    cert: Path
    key: Path
    ca: Path
    identity: Path  # the folder of the board's own keys and certificate, one for each claim


def enrolled(enrol: EnrolConfig) -> bool:
    """Whether the board has its certificate, which is the last file to be written."""
    return (enrol.identity / "tls.pem").is_file()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """One device."""

    fleet: str
    device: str
    state_dir: Path
    broker: BrokerConfig
    private_key: Path
    aggregator: str | Path  # the public key in hex, or its file
    prototype: str
    data: DataConfig
    graph: Path | None = None  # ONNX of the prototype, whose extractor a light device uses
    train: TrainConfig = TrainConfig()
    update: UpdateConfig = UpdateConfig()
    log: LogConfig = LogConfig()
    enrol: EnrolConfig | None = None
    board: str = "unknown"
    cache_mb: int = 256  # bound of the received models kept on disk

    def __post_init__(self) -> None:
        try:
            check_id(self.fleet, "fleet")
            check_device(self.device)
        except TopicError as error:
            raise ConfigError(f"[agent]: {error}") from None
        parse_prototype(self.prototype)
        if self.update.delta_bits not in (None, 1, 2, 4, 8):
            raise ConfigError(f"[update]: delta_bits is {self.update.delta_bits}; give 1, 2, 4 or 8")
        if self.update.kind == "delta" and self.update.delta_bits is None:
            raise ConfigError("[update]: kind is delta, but delta_bits is not given; give 1, 2, 4 or 8")
        if self.train.mode == "light" and self.graph is None:
            raise ConfigError("[train]: mode is light, which needs [model] graph; see edgestill model export")
        if self.train.mode == "light" and self.update.kind not in ("job", "predictor"):
            raise ConfigError(f"[update]: kind is {self.update.kind}, but a light device sends its predictor alone")
        if self.data.refuse_worse and not self.data.validation:
            raise ConfigError("[data]: refuse_worse needs samples to judge by; set validation to 0.1, say")

    @property
    def precision(self) -> Precision:
        """The precision of the prototype."""
        return parse_prototype(self.prototype)[1]

    @property
    def floats(self) -> str:
        """What is not quantized travels as."""
        if self.update.floats == "auto":
            return "fp16" if self.precision.quantized else "fp32"
        return self.update.floats

    def aggregator_key(self) -> Ed25519PublicKey:
        """The key that jobs, answers and models must be signed with."""
        if isinstance(self.aggregator, Path):
            return load_public_key(self.aggregator)
        return public_key_from_hex(self.aggregator)


def read_agent_config(
    path: Path | str, *, settings: Iterable[str] = (), environ: Mapping[str, str] | None = None
) -> AgentConfig:
    """The config in the file at `path`; `settings` are `section.key=value`, before environment and file."""
    path = Path(path)
    file = read_toml(path)
    environ = {**(os.environ if environ is None else environ), **parse_settings(settings)}
    for name in file:
        if name not in TABLES and name != "broker":
            raise ConfigError(f"{path}: unknown table [{name}]{did_you_mean(name, (*TABLES, 'broker'))}")
    base = path.resolve().parent
    tables = {
        name: take(
            sub_table(file, name, str(path)),
            f"{path} [{name}]",
            keys,
            env=f"{ENV}_{name.upper()}",
            environ=environ,
            base=base,
        )
        for name, keys in TABLES.items()
    }
    broker = broker_config(sub_table(file, "broker", str(path)), f"{path} [broker]", base, environ=environ)
    try:
        return _assemble(tables, broker, base)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse_settings(settings: Iterable[str]) -> dict[str, str]:
    """Settings as the environment variables that say the same.

    >>> parse_settings(["train.threads=2"])
    {'EDGESTILL_AGENT_TRAIN_THREADS': '2'}
    """
    known = {**TABLES, "broker": _BROKER_KEYS}
    found = {}
    for text in settings:
        name, equals, value = text.partition("=")
        section, _, key = name.strip().partition(".")
        if not (equals and key):
            raise ConfigError(f"--set {text!r}: write section.key=value, such as train.threads=2")
        if section not in known:
            raise ConfigError(f"--set {text!r}: unknown table [{section}]{did_you_mean(section, known)}")
        if key not in known[section]:
            raise ConfigError(f"--set {text!r}: [{section}] has no key {key!r}{did_you_mean(key, known[section])}")
        prefix = BROKER_ENV if section == "broker" else f"{ENV}_{section.upper()}"
        found[f"{prefix}_{key.upper()}"] = value.strip()
    return found


def check_agent_config(path: Path | str) -> dict[str, Any]:
    """The resolved config, by the tables of the file, for printing; the broker's password is not in it."""
    config = read_agent_config(path)
    broker = asdict(config.broker)
    if broker["password"] is not None:
        broker["password"] = "(given)"
    tables = {
        "agent": {name: getattr(config, name) for name in TABLES["agent"]},
        "broker": broker,
        "keys": {"private": config.private_key, "aggregator": config.aggregator},
        "enrol": {name: getattr(config.enrol, name, None) for name in TABLES["enrol"]},
        "model": {"prototype": config.prototype, "graph": config.graph},
        "data": asdict(config.data),
        "train": asdict(config.train),
        "update": asdict(config.update),
        "log": asdict(config.log),
    }
    return {name: _plain(table) for name, table in tables.items()}


def _assemble(tables: Mapping[str, Mapping[str, Any]], broker: BrokerConfig, base: Path) -> AgentConfig:
    key: str = tables["keys"]["aggregator"]
    private, enrol = tables["keys"]["private"], _enrol(tables, broker)
    if enrol is not None:
        assert broker.tls is not None
        own = enrol.identity
        broker = replace(broker, tls=replace(broker.tls, cert=own / "tls.pem", key=own / "tls.key"))
        private = own / "device.key"
    elif private is None:
        raise ConfigError(f"[keys]: 'private' is missing; give a path or set {ENV}_KEYS_PRIVATE")
    return AgentConfig(
        **tables["agent"],
        broker=broker,
        private_key=private,
        enrol=enrol,
        aggregator=key.lower() if HEX_KEY.fullmatch(key) else base / Path(key).expanduser(),
        **tables["model"],
        data=DataConfig(**tables["data"]),
        train=TrainConfig(**tables["train"]),
        update=UpdateConfig(**tables["update"]),
        log=LogConfig(**tables["log"]),
    )


def _enrol(tables: Mapping[str, Mapping[str, Any]], broker: BrokerConfig) -> EnrolConfig | None:
    cert, key = tables["enrol"]["cert"], tables["enrol"]["key"]
    if cert is None and key is None:
        return None
    for name, path in (("cert", cert), ("key", key)):
        if path is None or not path.is_file():
            raise ConfigError(f"[enrol]: {name!r}: there is no file {path}; both files of the claim are needed")
    if broker.tls is None or broker.tls.cert is not None or tables["keys"]["private"] is not None:
        raise ConfigError(
            "[enrol]: the board makes its own keys; give [broker.tls] its ca alone, and no [keys] private"
        )
    # another claim is another identity: a kit with a new one enrols the board again
    identity = tables["agent"]["state_dir"] / "identity" / digest_of(cert.read_bytes())[:16]
    return EnrolConfig(cert=cert, key=key, ca=broker.tls.ca, identity=identity)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return str(value) if isinstance(value, Path) else value
