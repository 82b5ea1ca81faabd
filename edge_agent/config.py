"""agent.toml: the configuration of one device, checked once. Imports no torch.

A value comes from the first that has it: `--set section.key=value`, the environment variable
EDGESTILL_AGENT_<SECTION>_<KEY> (EDGESTILL_BROKER_<KEY> for the broker), the file, the default. A setting is the
variable given for this once, so both are read, and refused, alike. `examples/agent.toml`
shows every key; relative paths of the file are below its own folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta
from msgspec.structs import asdict

from core.config_keys import read_toml, sub_table
from core.errors import ConfigError, TopicError, did_you_mean
from core.limits import MEGABYTES, SAMPLES, SECONDS, WEIGHT
from core.local_defaults import Fast
from core.logs import LogConfig
from core.settings import Field, Settings, describe, plain, read_tables, replace, within
from core.settings.assignments import assignments
from core.settings.compute_names import Amp, device_name
from models.spec import parse_prototype
from quant.onnx.targets import target_of_runtime
from quant.precision import Precision
from transport.config import BROKER_KEYS, BrokerConfig, broker_config
from transport.config import ENV as BROKER_ENV
from wire.board_reports import LOG_LINES
from wire.ids import check_device, check_id, digest_of
from wire.keys import Ed25519PublicKey, load_public_key, public_key_from_hex

__all__ = [
    "TABLES",
    "AgentConfig",
    "DataConfig",
    "EnrolConfig",
    "PredictConfig",
    "TrainConfig",
    "UpdateConfig",
    "check_agent_config",
    "enrolled",
    "parse_settings",
    "read_agent_config",
]

ENV = "EDGESTILL_AGENT"
Kind = Literal["job", "state", "delta", "predictor", "onnx"]
Mode = Literal["full", "light"]
Refresh = Literal["always", "offers", "never"]
HEX_KEY = re.compile(r"[0-9a-fA-F]{64}")


class DeviceConfig(Settings, frozen=True, kw_only=True):
    """The table [agent]: who the device is, and where it keeps its state."""

    fleet: str
    device: str
    state_dir: Path
    board: str = "unknown"
    cache_mb: Annotated[int, within(1, MEGABYTES.most, "bound of the received models kept on disk")] = 256
    telemetry_s: Annotated[
        float, within(0, SECONDS.most, "between two reports of a working device on its progress and board; 0: none")
    ] = 10.0
    log_lines: Annotated[int, within(0, LOG_LINES, "newest lines of its log that an operator may ask for")] = LOG_LINES


class KeyFiles(Settings, frozen=True, kw_only=True):
    """The table [keys]."""

    private: Path | None = None
    aggregator: Annotated[str, Meta(description="the public key in hex, or its file")]


class ClaimFiles(Settings, frozen=True, kw_only=True):
    """The table [enrol]: a claim, of a board that makes its own keys."""

    cert: Path | None = None
    key: Path | None = None


class ModelConfig(Settings, frozen=True, kw_only=True):
    """The table [model]."""

    prototype: str
    graph: Annotated[Path, Meta(description="ONNX of the prototype, whose extractor a light device uses")] | None = None
    refresh: Annotated[Refresh, Meta(description="when a light device takes the fleet's extractor")] = "always"
    raw_input: Annotated[bool, Meta(description="raw values into current.onnx, probabilities out")] = False
    runtime: Annotated[str, Meta(description="the oldest ONNX Runtime that must load it, 1.20")] | None = None
    publish: Annotated[Path, Meta(description="a folder for applications; its mode decides whose")] | None = None


class PredictConfig(Settings, frozen=True, kw_only=True):
    """The table [predict]: answers to requests over MQTT."""

    mqtt: Annotated[bool, Meta(description="answer requests on the topic predict of this device")] = False
    per_minute: Annotated[int, within(1, 6000, "requests that are answered; others are dropped")] = 60


class DataConfig(Settings, frozen=True, kw_only=True):
    """The table [data]: the device's own samples, see docs/board-data.md. Counts: training/label_privacy.py."""

    path: Annotated[Path, Meta(description="a file or a folder, by kind; of kind python: handed to the loader")]
    kind: Annotated[Literal["npz", "folder", "csv", "python"], Meta(description="of the samples")] = "npz"
    labels: Annotated[str, Meta(description="of folder and csv: a file in it with rows file,label")] = "labels.csv"
    columns: Annotated[tuple[str, ...], Meta(description="of csv: the channels; by default all but the label")] = ()
    label_column: Annotated[str, Meta(description="of csv; by default label, class or target")] | None = None
    window: Annotated[int, within(1, 1_000_000, "of csv: rows of one sample")] | None = None
    stride: Annotated[int, within(1, 1_000_000, "of csv: rows between windows; by default the window")] | None = None
    loader: Annotated[str, Meta(description="of python: module:function, or an entry point edgestill.data")] | None = (
        None
    )
    min_samples: Annotated[int, within(1, SAMPLES.most, "to train; by default 20, of npz 1")] | None = None
    max_samples: Annotated[int, within(1, SAMPLES.most, "used at most")] | None = None
    max_per_class: Annotated[int, within(1, SAMPLES.most, "used at most of one class")] | None = None
    keep: Annotated[Literal["newest", "reservoir"], Meta(description="which, of more samples than that")] = "newest"
    max_age_s: Annotated[float, within(1, SECONDS.most, "samples expire; of folder and csv")] | None = None
    refresh_s: Annotated[float, within(1, SECONDS.most, "between two looks at data that changes")] = 60.0
    validation: Annotated[float, within(0, 0.9, "the fraction held out of training")] = 0.0
    refuse_worse: Annotated[bool, Meta(description="keep the model if a new one is worse on held-out samples")] = False
    count_epsilon: Annotated[float, within(0.001, WEIGHT.most, "label counts leave the device with noise")] | None = (
        None
    )
    count_bins: Annotated[int, within(2, SAMPLES.most, "and rounded to multiples of this")] | None = None

    @property
    def least(self) -> int:
        """Training samples that a round needs."""
        return self.min_samples if self.min_samples is not None else 1 if self.kind == "npz" else 20

    def __post_init__(self) -> None:
        if (self.kind == "python") != (self.loader is not None):
            raise ConfigError(f"'loader' and kind = \"python\" go together; kind is {self.kind!r}")
        for name in ("columns", "label_column", "window", "stride"):
            if getattr(self, name) and self.kind != "csv":
                raise ConfigError(f"{name!r} is of kind csv, but 'kind' is {self.kind!r}")
        if self.stride is not None and self.window is None:
            raise ConfigError("'stride' is given without 'window'; give the rows of one sample")
        if self.max_age_s is not None and self.kind not in ("folder", "csv"):
            raise ConfigError(f"'max_age_s' is given, but samples of kind {self.kind!r} have no time; remove it")
        if "/" in self.labels or self.labels in ("", ".", ".."):
            raise ConfigError(f"'labels' is {self.labels!r}; give the name of a file in the folder")


class TrainConfig(Settings, frozen=True, kw_only=True):
    """The table [train]: the training child, whether it holds torch, and its limits."""

    mode: Annotated[Mode, Meta(description="light: the predictor alone, in NumPy, without torch")] = "full"
    threads: Annotated[int, within(1, 1024)] = 1
    memory_mb: Annotated[int, within(64, MEGABYTES.most)] | None = None
    max_seconds: Annotated[float, within(1, SECONDS.most, "without any progress")] = 300.0
    nice: Annotated[int, within(0, 19)] = 5
    fast: Annotated[Fast, Meta(description="off: local SGD without hand-written fast paths")] = "auto"
    device: Annotated[
        str, Meta(description="compute device: auto, cpu, cuda, cuda:1, mps", extra={"parse": device_name})
    ] = "auto"
    amp: Annotated[Amp, Meta(description="mixed precision of training: off or bf16")] = "off"


class UpdateConfig(Settings, frozen=True, kw_only=True):
    """The table [update]: what goes up."""

    kind: Annotated[Kind, Meta(description="what the job says, or always this")] = "job"
    delta_bits: int | None = None
    floats: Annotated[Literal["auto", "fp16", "fp32"], Meta(description="fp32 for fp32 prototypes, else fp16")] = "auto"


class AgentTables(Settings, frozen=True, kw_only=True):
    """The tables of agent.toml, besides [broker]."""

    agent: DeviceConfig
    keys: KeyFiles
    enrol: ClaimFiles
    model: ModelConfig
    data: DataConfig
    train: TrainConfig
    update: UpdateConfig
    predict: PredictConfig
    log: LogConfig


#: Their fields, by table.
TABLES: Mapping[str, Mapping[str, Field]] = {
    name: describe(own.table) for name, own in describe(AgentTables).items() if own.table is not None
}


class EnrolConfig(Settings, frozen=True, kw_only=True):
    """A claim, with which a board that makes its own keys gets its certificate: edge_agent/enrolment.py."""

    cert: Path
    key: Path
    ca: Path
    identity: Path  # the folder of the board's own keys and certificate, one for each claim


def enrolled(enrol: EnrolConfig) -> bool:
    """Whether the board has its certificate, which is the last file to be written."""
    return (enrol.identity / "tls.pem").is_file()


class AgentConfig(DeviceConfig, frozen=True, kw_only=True):
    """One device."""

    broker: BrokerConfig
    private_key: Path
    aggregator: str  # the public key in hex, or the path of its file
    prototype: str
    graph: Path | None = None
    refresh: Refresh = "always"
    raw_input: bool = False
    runtime: str | None = None
    publish: Path | None = None
    data: DataConfig
    train: TrainConfig = TrainConfig()
    update: UpdateConfig = UpdateConfig()
    predict: PredictConfig = PredictConfig()
    log: LogConfig = LogConfig()
    enrol: EnrolConfig | None = None

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
        if self.train.mode == "light" and self.train.device not in ("auto", "cpu"):
            raise ConfigError(f"[train]: device is {self.train.device}, but a light device trains on cpu")
        if self.train.mode == "light" and self.update.kind not in ("job", "predictor"):
            raise ConfigError(f"[update]: kind is {self.update.kind}, but a light device sends its predictor alone")
        if self.runtime is not None:
            target_of_runtime(self.runtime, "[model]: runtime")
        if self.publish is not None and self.publish.resolve() == self.state_dir.resolve():
            raise ConfigError("[model]: publish is the state folder; give a folder of its own for applications")
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
        if HEX_KEY.fullmatch(self.aggregator):
            return public_key_from_hex(self.aggregator)
        return load_public_key(Path(self.aggregator))


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
    tables = read_tables(AgentTables, file, str(path), env=ENV, environ=environ, base=base)
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
    tables = {**TABLES, "broker": BROKER_KEYS}
    prefixes = {**{name: f"{ENV}_{name.upper()}" for name in tables}, "broker": BROKER_ENV}
    return assignments(settings, tables, prefixes, example="train.threads=2")


def check_agent_config(path: Path | str, settings: Iterable[str] = ()) -> dict[str, Any]:
    """The resolved config, by the tables of the file, for printing; the broker's password is not in it."""
    config = read_agent_config(path, settings=settings)
    own = plain(config)
    return {
        "agent": {name: own[name] for name in TABLES["agent"]},
        "broker": own["broker"],
        "keys": {"private": own["private_key"], "aggregator": own["aggregator"]},
        "enrol": {name: (own["enrol"] or {}).get(name) for name in TABLES["enrol"]},
        "model": {name: own[name] for name in TABLES["model"]},
        **{name: own[name] for name in ("data", "train", "update", "predict", "log")},
    }


def _assemble(tables: AgentTables, broker: BrokerConfig, base: Path) -> AgentConfig:
    key, private = tables.keys.aggregator, tables.keys.private
    enrol = _enrol(tables, broker)
    if enrol is not None:
        assert broker.tls is not None
        own = enrol.identity
        broker = replace(broker, tls=replace(broker.tls, cert=own / "tls.pem", key=own / "tls.key"))
        private = own / "device.key"
    elif private is None:
        raise ConfigError(f"[keys]: 'private' is missing; give a path or set {ENV}_KEYS_PRIVATE")
    return AgentConfig(
        **asdict(tables.agent),
        broker=broker,
        private_key=private,
        enrol=enrol,
        aggregator=key.lower() if HEX_KEY.fullmatch(key) else str(base / Path(key).expanduser()),
        **asdict(tables.model),
        data=tables.data,
        train=tables.train,
        update=tables.update,
        predict=tables.predict,
        log=tables.log,
    )


def _enrol(tables: AgentTables, broker: BrokerConfig) -> EnrolConfig | None:
    cert, key = tables.enrol.cert, tables.enrol.key
    if cert is None and key is None:
        return None
    for name, path in (("cert", cert), ("key", key)):
        if path is None or not path.is_file():
            raise ConfigError(f"[enrol]: {name!r}: there is no file {path}; both files of the claim are needed")
    if broker.tls is None or broker.tls.cert is not None or tables.keys.private is not None:
        raise ConfigError(
            "[enrol]: the board makes its own keys; give [broker.tls] its ca alone, and no [keys] private"
        )
    assert cert is not None
    assert key is not None
    # another claim is another identity: a kit with a new one enrols the board again
    identity = tables.agent.state_dir / "identity" / digest_of(cert.read_bytes())[:16]
    return EnrolConfig(cert=cert, key=key, ca=broker.tls.ca, identity=identity)
