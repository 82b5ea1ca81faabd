"""Inputs from files and bytes: .npy arrays, and pictures as arrays of bytes, by Pillow. Imports no torch.

A picture is converted as the model's card requires: grey or RGB by the number of channels, resized (bilinear) to its
height and width, channels first.
"""

from __future__ import annotations

import io
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import DataError
from core.files import read_regular
from models.card import InputCard
from models.npz import memory_bound, parse_npy, read_npy

__all__ = ["as_array", "decode_input"]

NPY = b"\x93NUMPY"
MAX_PIXELS = 50_000_000  # a header may claim any size
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
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise DataError(f"{where}: pictures need Pillow, which is not installed: pip install pillow") from None
    channels, height, width = card.shape
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the check below is stricter
            image = Image.open(io.BytesIO(data))
        if image.size[0] * image.size[1] > MAX_PIXELS:
            raise DataError(f"{where}: {image.size[0]}x{image.size[1]} pixels, the limit is {MAX_PIXELS:,}")
        if image.mode.startswith(("I", "F")):  # Pillow would clip these at 255
            raise DataError(f"{where}: more than 8 bits per channel ({image.mode}); give an 8-bit picture")
        pixels = image.convert("L" if channels == 1 else "RGB")
        if pixels.size != (width, height):
            pixels = pixels.resize((width, height), Image.Resampling.BILINEAR)
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError, SyntaxError) as error:
        raise DataError(f"{where}: neither an .npy file nor a readable picture ({_first_line(error)})") from None
    array: NDArray[np.uint8] = np.atleast_3d(np.asarray(pixels, np.uint8)).transpose(2, 0, 1)
    return array


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
