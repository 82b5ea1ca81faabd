"""A folder of pictures, one subfolder per class; with `train/` and `test/` above them if the test part is separate.

Pictures of one common size of at most 64x64 keep it, all others are resized to 32x32. They are loaded as grey if all
files are grey, else as RGB.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from core.errors import DataError
from fleet.data.dataset import Array, Dataset
from fleet.data.files import MAX_BYTES
from fleet.data.own import own_dataset
from models.sources.images import SUFFIXES, check_picture, decode_picture, is_grey, open_picture

__all__ = ["image_folder"]

_KEEP = 64  # pictures of one size up to this are not resized
_RESIZED = 32

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
    pictures = [
        (file, label.name) for label in classes for file in sorted(label.iterdir()) if file.suffix.lower() in SUFFIXES
    ]
    if not pictures:
        raise DataError(f"{folder}: no pictures in subfolders; put each class into a subfolder of its own")
    return pictures


def _survey(files: list[Path]) -> tuple[set[tuple[int, int]], bool]:
    """The sizes (width, height) that occur, and whether every picture is grey; reads headers only."""
    sizes, grey = set(), True
    for file in files:
        with open_picture(file) as image:
            check_picture(file, image)
            sizes.add(image.size)
            grey = grey and is_grey(image)
    return sizes, grey


def _decode(part: Labelled, size: tuple[int, int], grey: bool) -> Array:
    out = np.empty((len(part), 1 if grey else 3, size[1], size[0]), np.uint8)
    for row, (file, _) in zip(out, part, strict=True):
        row[:] = decode_picture(file, size, grey=grey)
    return out
