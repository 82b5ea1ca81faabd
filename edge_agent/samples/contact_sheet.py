"""A picture of a board's samples: a row for each class, with its name and a few samples. Needs Pillow."""

from __future__ import annotations

import io
from collections import defaultdict
from pathlib import Path
from typing import Any

from core.errors import ConfigError, DataError
from core.files import write_atomic
from edge_agent.samples.choice import Choice
from edge_agent.samples.entries import Entry
from edge_agent.samples.read import array_rows
from edge_agent.samples.spec import SourceSpec
from edge_agent.samples.task_file import KnownTask

__all__ = ["write_contact_sheet"]

ROWS, COLUMNS = 40, 10  # classes, and samples of each
TILE, GAP, NAMES = 64, 4, 120  # pixels


def write_contact_sheet(path: Path, spec: SourceSpec, choice: Choice, known: KnownTask | None) -> None:
    """Write the sheet of the chosen samples as PNG; held-out ones have a frame."""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise ConfigError("a contact sheet needs Pillow; run: pip install 'edgestill[images]'") from None
    groups: dict[str, list[tuple[Entry, bool]]] = defaultdict(list)
    for held, part in ((False, choice.train), (True, choice.held)):
        for entry in part:
            groups[_name(entry, known)].append((entry, held))
    rows = [(name, groups[name][:COLUMNS]) for name in sorted(groups)][:ROWS]
    width, height = NAMES + COLUMNS * (TILE + GAP), max(len(rows), 1) * (TILE + GAP)
    sheet = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(sheet)
    tiles = _Tiles(spec)
    for i, (name, members) in enumerate(rows):
        top = i * (TILE + GAP)
        shown = name if name.isascii() else name.encode("ascii", "replace").decode()
        draw.text((GAP, top + TILE // 2 - 12), f"{shown[:18]}\n{len(groups[name])}", fill="black")
        for k, (entry, held) in enumerate(members):
            place = NAMES + k * (TILE + GAP), top
            sheet.paste(tiles.tile(entry), place)
            if held:
                draw.rectangle((*place, place[0] + TILE - 1, top + TILE - 1), outline="red", width=2)
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG")
    try:
        write_atomic(path, buffer.getvalue())
    except OSError as error:
        raise ConfigError(f"--contact-sheet {path}: {error.strerror or error}") from None


def _name(entry: Entry, known: KnownTask | None) -> str:
    number = None if known is None else known.label(entry.label)
    return str(entry.label) if known is None or number is None else known.name(number)


class _Tiles:
    """Samples as squares: pictures, arrays as grey or colour, windows as lines."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._x: Any = None

    def tile(self, entry: Entry) -> Any:
        """The tile of a sample; a grey one if it cannot be shown."""
        from PIL import Image

        try:
            pixels = self._pixels(entry)
        except (DataError, ValueError, OSError):
            return Image.new("RGB", (TILE, TILE), "lightgrey")
        return Image.fromarray(pixels).convert("RGB").resize((TILE, TILE))

    def _pixels(self, entry: Entry) -> Any:
        import numpy as np

        if self._spec.kind == "folder":
            from models.sources.images import decode_picture

            return decode_picture(entry.place, (TILE, TILE), grey=False).transpose(1, 2, 0)
        if self._spec.kind == "csv":
            return _scaled(np.frombuffer(entry.place, np.float32)[None])
        if self._x is None:
            self._x = array_rows(self._spec)
        x = np.asarray(self._x[entry.place])
        if x.ndim == 3 and x.shape[0] == 3:
            return np.ascontiguousarray(_scaled(x).transpose(1, 2, 0))
        return _scaled(x.reshape(-1, x.shape[-1]))


def _scaled(x: Any) -> Any:
    """Any numbers as bytes."""
    import numpy as np

    if x.dtype == np.uint8:
        return x
    low, high = float(x.min()), float(x.max())
    return ((x.astype(np.float64) - low) * (255 / (high - low or 1))).astype(np.uint8)
