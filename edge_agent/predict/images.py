"""Inputs from files and bytes: .npy arrays, and pictures as arrays of bytes. Imports no torch.

A picture is converted as the model's card requires, by the code that reads samples (`models/sources/images.py`):
grey or RGB by the number of channels, resized to its height and width, channels first.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import ConfigError, DataError
from core.files import read_regular
from models.card import InputCard
from models.npz import memory_bound, parse_npy, read_npy
from models.sources.images import decode_picture

__all__ = ["as_array", "decode_input"]

NPY = b"\x93NUMPY"
MAX_PICTURE = 64 * 2**20


def as_array(x: object, card: InputCard) -> object:
    """`x`, with files read: a path, or a list of paths, which become one batch."""
    if isinstance(x, str | os.PathLike):
        return _read(Path(x), card)
    if isinstance(x, list | tuple) and x and all(isinstance(part, str | os.PathLike) for part in x):
        parts = [np.asarray(_read(Path(part), card)) for part in x]
        return np.concatenate([part if part.shape[1:] == card.shape else part[None] for part in parts])
    return x


def decode_input(data: bytes, card: InputCard, where: str) -> NDArray[Any]:
    """The array in the bytes of an .npy file, or of a picture; DataError names `where`."""
    if data.startswith(NPY):
        return parse_npy(data, where)
    return _picture(data, card, where)


def _read(path: Path, card: InputCard) -> NDArray[Any]:
    if path.suffix.lower() == ".npy":
        return read_npy(path)
    try:
        data = read_regular(path, min(MAX_PICTURE, memory_bound()))
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; check the path and its permissions") from None
    return decode_input(data, card, str(path))


def _picture(data: bytes, card: InputCard, where: str) -> NDArray[np.uint8]:
    if card.layout != "NCHW" or card.shape[0] not in (1, 3):
        raise DataError(f"{where}: not an .npy file, and this model takes no pictures ({card.layout} {card.shape})")
    channels, height, width = card.shape
    try:
        return decode_picture(Path(where), (width, height), grey=channels == 1, content=io.BytesIO(data))
    except ConfigError as error:  # Pillow is missing
        raise DataError(f"{where}: {error}") from None
    except DataError as error:
        reason = str(error).removeprefix(f"{where}: ").rpartition("; ")[0]
        raise DataError(f"{where}: not an .npy file, and {reason}") from None
