"""Text to token ids: lower-cased words, hashed into a fixed number of buckets, so no vocabulary is transmitted.

    id(word) = 1 + crc32(utf8(word)) mod (vocab - 1)        0 is padding

CRC-32 is the same on every machine and in every run, unlike Python's own hash.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from core.errors import ConfigError
from fleet.data.dataset import Labels
from models.zoo import TEXT_BUCKETS

__all__ = ["LENGTH", "VOCAB", "token_ids", "words"]

VOCAB = TEXT_BUCKETS
LENGTH = 64
_WORD = re.compile(r"\w+(?:'\w+)*")


def words(text: str) -> list[str]:
    """Lower-cased words; an apostrophe inside a word belongs to it.

    >>> words("It's 2 o'clock, Sir!")
    ["it's", '2', "o'clock", 'sir']
    """
    return _WORD.findall(text.lower())


def token_ids(texts: Sequence[str] | Iterable[str], *, vocab: int = VOCAB, length: int = LENGTH) -> Labels:
    """Ids (N, length), int64: the first `length` words of each text, then zeros."""
    if vocab < 2 or length < 1:
        raise ConfigError(
            f"token ids of vocab {vocab} and length {length}; give a vocab of 2 or more, a length of 1 or more"
        )
    rows = [[_id(word, vocab) for word in words(text)[:length]] for text in texts]
    ids = np.zeros((len(rows), length), np.int64)
    for row, hashed in zip(ids, rows, strict=True):
        row[: len(hashed)] = hashed
    return ids


@lru_cache(maxsize=1 << 16)
def _id(word: str, vocab: int) -> int:
    return 1 + zlib.crc32(word.encode("utf-8", "surrogatepass")) % (vocab - 1)
