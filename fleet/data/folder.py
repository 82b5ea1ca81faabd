"""A folder of pictures, one subfolder per class; with `train/` and `test/` above them if the test part is separate.

Pictures of one common size of at most 64x64 keep it, all others are resized to 32x32. They are loaded as grey if all
files are grey, else as RGB.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from core.errors import DataError
from fleet.data.dataset import Array, Dataset
from fleet.data.files import MAX_BYTES
from fleet.data.own import own_dataset

__all__ = ["image_folder"]

_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm"}
_KEEP = 64  # pictures of one size up to this are not resized
_RESIZED = 32
_MAX_PIXELS = 50_000_000  # per picture; a header may claim any size
_GREY = ("1", "L", "LA")

Labelled = list[tuple[Path, str]]


def image_folder(path: Path) -> Dataset:
    """The dataset in a folder of pictures."""
    parted = (path / "train").is_dir() and (path / "test").is_dir()
    parts = [_listed(path / name) for name in ("train", "test")] if parted else [_listed(path)]
    files = [file for part in parts for file, _ in part]
    sizes, grey = _survey(files)
    size = next(iter(sizes)) if len(sizes) == 1 and max(next(iter(sizes))) <= _KEEP else (_RESIZED, _RESIZED)
    needed = len(files) * size[0] * size[1] * (1 if grey else 3)
    if needed > MAX_BYTES:
        raise DataError(f"{path}: {len(files):,} pictures would take {needed:,} bytes, the limit is {MAX_BYTES:,}")
    decoded = [(_decode(part, size, grey), [label for _, label in part]) for part in parts]
    return own_dataset(path, "image", decoded[0], decoded[1] if parted else None)


def _listed(folder: Path) -> Labelled:
    try:
        classes = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        raise DataError(f"{folder}: {error.strerror or error}; check the path and its permissions") from None
    found = [
        (file, label.name) for label in classes for file in sorted(label.iterdir()) if file.suffix.lower() in _SUFFIXES
    ]
    if not found:
        raise DataError(f"{folder}: no pictures in subfolders; put each class into a subfolder of its own")
    return found


def _survey(files: list[Path]) -> tuple[set[tuple[int, int]], bool]:
    """The sizes (width, height) that occur, and whether every picture is grey; reads headers only."""
    sizes, grey = set(), True
    for file in files:
        with _opened(file) as image:
            if image.mode.startswith(("I", "F")):  # Pillow would clip these at 255
                raise DataError(f"{file}: more than 8 bits per channel ({image.mode}); save it as an 8-bit picture")
            sizes.add(image.size)
            grey = grey and image.mode in _GREY
    return sizes, grey


def _opened(file: Path) -> Any:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise DataError("pictures need Pillow, which is missing; run: pip install 'edgestill[aggregator]'") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the check below is stricter
            image = Image.open(file)
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError) as error:
        raise DataError(f"{file}: not a readable picture ({error}); remove or replace it") from None
    if image.size[0] * image.size[1] > _MAX_PIXELS:
        image.close()
        raise DataError(
            f"{file}: {image.size[0]}x{image.size[1]} pixels, the limit is {_MAX_PIXELS:,}; make it smaller"
        )
    return image


def _decode(part: Labelled, size: tuple[int, int], grey: bool) -> Array:
    from PIL import Image

    width, height = size
    out = np.empty((len(part), 1 if grey else 3, height, width), np.uint8)
    for row, (file, _) in zip(out, part, strict=True):
        with _opened(file) as image:
            try:
                pixels = image.convert("L" if grey else "RGB")
            except (OSError, ValueError, SyntaxError) as error:  # Pillow reports broken PNG chunks as SyntaxError
                raise DataError(f"{file}: cut short or damaged ({error}); remove or replace it") from None
        if pixels.size != size:
            pixels = pixels.resize(size, Image.Resampling.BILINEAR)
        row[:] = np.atleast_3d(np.asarray(pixels)).transpose(2, 0, 1)
    return out
