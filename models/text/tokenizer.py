"""Texts to token ids for DistilBERT, through the `tokenizers` package (extra `text`). Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from core.errors import ConfigError
from core.files import read_regular

__all__ = ["encode_texts", "load_tokenizer"]

MAX_SETTINGS = 2**20  # bytes


def load_tokenizer(folder: str | Path) -> Any:
    """The `tokenizers.Tokenizer` of a DistilBERT folder: from tokenizer.json, else from vocab.txt."""
    try:
        import tokenizers
    except ImportError as error:
        raise ConfigError("distilbert: texts need the tokenizers package; install edgestill[text]") from error
    folder = Path(folder)
    try:
        if (folder / "tokenizer.json").is_file():
            tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        elif (folder / "vocab.txt").is_file():
            tokenizer = _from_vocabulary(folder)
        else:
            raise ConfigError(f"distilbert: {str(folder)!r} has neither tokenizer.json nor vocab.txt")
    except ConfigError:
        raise
    except Exception as error:  # the package raises bare Exception
        raise ConfigError(f"distilbert: the tokenizer in {str(folder)!r} cannot be read ({error})") from error
    _special_ids(tokenizer)
    tokenizer.no_padding()  # encode_texts does both
    tokenizer.no_truncation()
    return tokenizer


def _from_vocabulary(folder: Path) -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    settings = folder / "tokenizer_config.json"
    lowercase = _settings(settings).get("do_lower_case", True) if settings.is_file() else True
    tokenizer = Tokenizer(models.WordPiece.from_file(str(folder / "vocab.txt"), unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    cls, sep = _special_ids(tokenizer)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", sep), ("[CLS]", cls))
    return tokenizer


def _settings(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_regular(path, MAX_SETTINGS))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not readable as JSON ({getattr(error, 'strerror', None) or error})") from None
    return found if isinstance(found, dict) else {}


def _special_ids(tokenizer: Any) -> tuple[int, int]:
    """Ids of [CLS] and [SEP]; refuses a vocabulary without them, or whose padding is not 0."""
    pad, cls, sep = (tokenizer.token_to_id(token) for token in ("[PAD]", "[CLS]", "[SEP]"))
    if pad != 0 or cls is None or sep is None:
        raise ConfigError("distilbert: the tokenizer needs [CLS], [SEP], and [PAD] as id 0")
    return cls, sep


def encode_texts(tokenizer: Any, texts: Sequence[str], length: int) -> np.ndarray:
    """Token ids (N, length), int64: [CLS] text [SEP], then zeros; a longer text is truncated before its [SEP]."""
    if length < 2:
        raise ConfigError(f"distilbert: texts of {length} tokens have no room for [CLS] and [SEP]")
    ids = np.zeros((len(texts), length), np.int64)
    _, sep = _special_ids(tokenizer)
    for row, encoded in zip(ids, tokenizer.encode_batch(list(texts)), strict=True):
        kept = encoded.ids if len(encoded.ids) <= length else [*encoded.ids[: length - 1], sep]
        row[: len(kept)] = kept
    return ids
