"""Reading a DistilBERT folder: `config.json` and `model.safetensors`, as the Hugging Face hub lays them out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import torch
from safetensors import SafetensorError, safe_open

from core.errors import ConfigError, ModelError
from core.files import read_regular

__all__ = ["DistilBertConfig", "read_config", "read_weights"]

MAX_CONFIG = 2**20  # bytes
PREFIX = "distilbert."  # of a checkpoint saved with a head; without one there is no prefix

Size = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class DistilBertConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of `config.json` that shape the network; the others are ignored."""

    vocab_size: Size
    max_position_embeddings: Size
    dim: Size
    hidden_dim: Size
    n_layers: Size
    n_heads: Size
    dropout: Share = 0.1
    attention_dropout: Share = 0.1
    activation: Literal["gelu", "relu"] = "gelu"
    pad_token_id: int | None = 0


def read_config(folder: Path) -> DistilBertConfig:
    """The network's sizes; ModelError if they are inconsistent."""
    path = _file(folder, "config.json")
    try:
        config = msgspec.json.decode(read_regular(path, MAX_CONFIG), type=DistilBertConfig)
    except (OSError, msgspec.MsgspecError) as error:
        raise ModelError(f"{path}: not the configuration of a DistilBERT ({error})") from error
    if config.dim % config.n_heads:
        raise ModelError(f"{path}: dim {config.dim} cannot be split over {config.n_heads} heads")
    if config.pad_token_id not in (0, None):
        raise ModelError(f"{path}: pad_token_id is {config.pad_token_id}; the padding id must be 0")
    return config


def read_weights(folder: Path, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors called as in `shapes`, one by one; their names may carry the prefix `distilbert.`."""
    path = _file(folder, "model.safetensors")
    try:
        with safe_open(path, framework="pt") as stored:
            names = set(stored.keys())
            prefix = PREFIX if any(name.startswith(PREFIX) for name in names) else ""
            for name, shape in shapes.items():
                if prefix + name not in names:
                    raise ModelError(f"{path}: tensor {prefix + name!r} is missing; is it a DistilBERT checkpoint?")
                tensor = stored.get_tensor(prefix + name)
                if tuple(tensor.shape) != shape:
                    raise ModelError(f"{path}: {prefix + name!r} is {tuple(tensor.shape)}, config.json asks {shape}")
                yield name, tensor
    except SafetensorError as error:
        raise ModelError(f"{path}: not a safetensors file ({error})") from error


def _file(folder: Path, name: str) -> Path:
    if not folder.is_dir():
        raise ConfigError(f"distilbert: no folder {str(folder)!r}")
    path = folder / name
    if not path.is_file():
        raise ConfigError(f"distilbert: {str(folder)!r} has no {name}; it needs config.json and model.safetensors")
    return path
