"""The board's model in a folder for applications of other users: `[model] publish`.

    current-<12 hex digits>.onnx   the graph, named by its digest; its content never changes
    current.json                   its card, which names that file; replaced by one rename, after the graph
    current.onnx                   a symbolic link to the graph, where the file system has such links

Reading the card first and then the file that it names gives a matching pair. The previous graph stays until
the next one is published, for slow readers. The folder's own mode and group decide who may read: its
files are readable by everybody who may enter it. The model is copied in pieces: the agent holds no graph in memory.
"""

from __future__ import annotations

import hashlib
import logging
import os
from contextlib import suppress
from pathlib import Path

import msgspec

from core.errors import EdgestillError
from core.files import atomic_file, write_atomic
from edge_agent.state.folders import read_small
from edge_agent.state.store import CURRENT
from models.card import ModelCard

__all__ = ["Published", "publish_model"]

log = logging.getLogger("edgestill.agent")

GRAPH, _, CARD = CURRENT
RETRY_S = 30.0
PIECE = 2**16


class Published:
    """Publishes the model of the state folder `root` whenever it has changed; without a folder it does nothing."""

    def __init__(self, root: Path, folder: Path | None) -> None:
        self._root, self._folder = root, folder
        self._done: tuple[int, int] | None = None  # the card that was published last
        self._again, self._reported = 0.0, ""

    def poll(self, now: float) -> None:
        """Publish a new model; a failure is logged once, and tried again."""
        if self._folder is None or now < self._again:
            return
        try:
            facts = (self._root / CARD).stat()
        except OSError:  # no model yet
            return
        if (facts.st_ino, facts.st_mtime_ns) == self._done:
            return
        try:
            published = publish_model(self._root, self._folder)
        except (OSError, ValueError, EdgestillError) as error:
            self._again = now + RETRY_S
            text = f"{self._folder}: the model is not published: {_why(error)}"
            if text != self._reported:
                log.warning("%s; tried again every %g s", text, RETRY_S)
            self._reported = text
            return
        self._done, self._reported = (facts.st_ino, facts.st_mtime_ns), ""
        if published:
            log.info("the model is published in %s", self._folder)


def publish_model(root: Path, folder: Path) -> bool:
    """Copy the model of the state folder; False if it is there already. ValueError while it is being replaced."""
    card = ModelCard.from_json(read_small(root / CARD), str(root / CARD))
    if card is None or card.sha256 is None or len(card.sha256) != 64 or set(card.sha256) - set("0123456789abcdef"):
        raise ValueError(f"{root / CARD} has no digest; the agent writes one with the next model")
    name = f"current-{card.sha256[:12]}.onnx"
    text = msgspec.structs.replace(card, file=name).to_json()
    _make(folder)
    before = _named(folder)
    if before is not None and before[1] == text.encode() and (folder / name).is_file():
        return False
    if not (folder / name).is_file():
        _copy(root / GRAPH, folder / name, card.sha256)
    _link(folder, name)
    write_atomic(folder / CARD, text)
    _tidy(folder, {name, before[0] if before else ""})
    return True


def _make(folder: Path) -> None:
    if not folder.is_dir():
        folder.mkdir(parents=True)
        folder.chmod(0o755)  # whatever the umask


def _named(folder: Path) -> tuple[str, bytes] | None:
    """The graph that the published card names, and the card's bytes."""
    try:
        data = read_small(folder / CARD)
        card = ModelCard.from_json(data, CARD)
        return (card.file if card is not None else None) or "", data
    except (OSError, ValueError, EdgestillError):
        return None


def _copy(source: Path, target: Path, digest: str) -> None:
    copied = hashlib.sha256()
    with source.open("rb") as graph, atomic_file(target) as file:
        while piece := graph.read(PIECE):
            copied.update(piece)
            file.write(piece)
        if copied.hexdigest() != digest:
            raise ValueError(f"{source} is not the file of its card")  # one of them is about to be replaced


def _link(folder: Path, name: str) -> None:
    new = folder / f".{GRAPH}.new"
    with suppress(OSError):  # a file system without symbolic links: the card names the file
        new.unlink(missing_ok=True)
        new.symlink_to(name)
        os.replace(new, folder / GRAPH)


def _tidy(folder: Path, keep: set[str]) -> None:
    """Remove older graphs, and partial copies of a killed agent."""
    for path in (*folder.glob("current-*.onnx"), *folder.glob(".current*")):
        if path.name not in keep:
            with suppress(OSError):
                path.unlink()


def _why(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return "the agent's user may not write there; see docs/application.md"
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
