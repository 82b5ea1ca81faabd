"""The tables of fleet.toml: which keys each has, the [devices] table, and `--set table.key=value`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from aggregator.config.fusion import FUSION_KEYS, list_of_words
from core.config_keys import Key, brief, sub_table, take
from core.errors import ConfigError, EdgestillError, did_you_mean
from core.limits import BATCH, CLIP, DEVICES, EPOCHS, LATENT, LR, MEGABYTES, ROUNDS, SECONDS, STEPS, WEIGHT
from core.logs import FORMATS, LEVELS
from transport.config import ENV as BROKER_ENV
from transport.config import BrokerConfig
from wire.ids import check_device
from wire.keys import Ed25519PublicKey, load_public_key, public_key_from_hex

__all__ = ["ENV", "TABLES", "as_environment", "device_keys", "split_tables"]

ENV = "EDGESTILL_AGGREGATOR"
TABLES: dict[str, dict[str, Key]] = {
    "fleet": {"id": Key(str), "seed": Key(int, 0, least=0, most=2**53)},
    "state": {"dir": Key(Path), "key": Key(Path), "keep_rounds": Key(int, 2, least=1, most=ROUNDS.most)},
    "task": {
        "input_shape": Key(str),  # [1, 28, 28] in the file, 1x28x28 from the environment
        "classes": Key(int, least=2, most=10_000),
        "latent": Key(int, 32, least=1, most=LATENT.most),
        "validation": Key(Path, None),
    },
    "prototypes": {"names": Key(tuple)},
    "round": {
        "rounds": Key(int, 100, least=1, most=ROUNDS.most),
        "fraction": Key(float, 1.0, least=0, most=1),
        "min_devices": Key(int, 1, least=1, most=DEVICES.most),
        "quorum": Key(float, 0.5, least=0, most=1),
        "deadline_s": Key(float, 3600.0, least=0.1, most=SECONDS.most),
        "target_accuracy": Key(float, None, least=0, most=1),
        "update": Key(str, "state", choices=("state", "delta", "predictor", "onnx")),
        "delta_bits": Key(int, 8),
        "late": Key(str, "drop", choices=("drop", "keep")),
    },
    "train": {
        "lr": Key(float, None, least=0, most=LR.most),  # by default it follows from batch size and momentum
        "batch_size": Key(int, None, least=1, most=BATCH.most),
        "epochs": Key(int, None, least=1, most=EPOCHS.most),
        "steps": Key(int, None, least=1, most=STEPS.most),
        "least_steps": Key(int, None, least=0, most=STEPS.most),
        "most_steps": Key(int, None, least=0, most=STEPS.most),
        "momentum": Key(float, None, least=0, most=0.999999),
        "weight_decay": Key(float, 0.0, least=0, most=WEIGHT.most),
        "prox": Key(float, None, least=0, most=WEIGHT.most),  # by default what the recipe says
        "clip": Key(float, None, least=0, most=CLIP.most),
    },
    "fusion": FUSION_KEYS,
    "limits": {
        "update_mb": Key(int, 64, least=1, most=256),
        "parts_mb": Key(int, 2048, least=1, most=MEGABYTES.most),
        "transfers": Key(int, 2, least=1, most=1000),
        "messages_per_minute": Key(int, 6000, least=60, most=10**9),
        "mb_per_minute": Key(int, None, least=1, most=MEGABYTES.most),  # by default four updates
        "reports_per_minute": Key(int, 600, least=60, most=10**9),
        "transfers_per_minute": Key(int, 600, least=60, most=10**9),
        "cpu_s_per_minute": Key(float, 4.0, least=0.1, most=SECONDS.most),
        "garbage_before_mute": Key(int, 20, least=1, most=1_000_000),
        "mute_s": Key(float, 600.0, least=0, most=SECONDS.most),
    },
    "log": {"format": Key(str, "line", choices=FORMATS), "level": Key(str, "info", choices=LEVELS)},
}
_BROKER = ("password_file", *(f.name for f in fields(BrokerConfig) if f.name != "tls"))
_NAMES = (*TABLES, "broker", "devices")
_MANIFEST = ("provision", "group")  # of the same file, for `edgestill provision`: firmware_configs/manifest.py
_DEVICE = {"key": Key(str)}


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
    if "source_classes" in found["fusion"]:
        classes = list_of_words(found["fusion"]["source_classes"])
        found["fusion"] = {**found["fusion"], "source_classes": classes}
    return found


def as_environment(settings: Sequence[str]) -> dict[str, str]:
    """`round.rounds=3` as the variable EDGESTILL_AGGREGATOR_ROUND_ROUNDS=3, given for this once."""
    found = {}
    for text in settings:
        name, equals, value = text.partition("=")
        table, dot, key = name.strip().partition(".")
        if not (equals and dot):
            raise ConfigError(f"--set {text!r}: write it as table.key=value, such as round.rounds=3")
        keys = _BROKER if table == "broker" else TABLES.get(table)
        if keys is None:
            raise ConfigError(f"--set {text!r}: no table [{table}]{did_you_mean(table, _NAMES)}")
        if key not in keys:
            raise ConfigError(f"--set {text!r}: no key {key!r} in [{table}]{did_you_mean(key, keys)}")
        prefix = BROKER_ENV if table == "broker" else f"{ENV}_{table.upper()}"
        found[f"{prefix}_{key.upper()}"] = value.strip()
    return found


def device_keys(table: Mapping[str, Any], where: str, base: Path) -> dict[str, Ed25519PublicKey]:
    """The public key of every device that may take part: named in the table, and the files `ID.pub` of `keys_dir`."""
    table = dict(table)
    folder = take(
        {k: table.pop(k) for k in ("keys_dir",) if k in table}, where, {"keys_dir": Key(Path, None)}, base=base
    )
    found = _from_folder(folder["keys_dir"], where)
    for name, value in table.items():
        if not isinstance(value, dict):
            raise ConfigError(f'{where}: {name!r} is {brief(value)}; write it as {name} = {{ key = "64 hex digits" }}')
        _device(name, where)
        text = take(value, f"{where}: {name}", _DEVICE)["key"]
        found[name] = _key(lambda text=text: public_key_from_hex(text), f"{where}: {name}")
    return found


def _from_folder(folder: Path | None, where: str) -> dict[str, Ed25519PublicKey]:
    if folder is None:
        return {}
    if not folder.is_dir():
        raise ConfigError(f"{where}: 'keys_dir': there is no folder {folder}")
    files = sorted(folder.glob("*.pub"))
    return {_device(file.stem, str(file)): _key(lambda file=file: load_public_key(file), str(file)) for file in files}


def _device(name: str, where: str) -> str:
    try:
        check_device(name)
    except EdgestillError as error:
        raise ConfigError(f"{where}: {error}") from None
    return name


def _key(load: Any, where: str) -> Ed25519PublicKey:
    try:
        key: Ed25519PublicKey = load()
    except EdgestillError as error:
        raise ConfigError(f"{where}: {error}") from None
    return key
