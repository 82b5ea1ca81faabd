"""What an agent remembers: one folder, in which everything is whole or not there.

    session                    how often the agent was started
    outbox/<job>/              an update that was not answered yet: update (the sealed bytes), entry.json, and what
                               goes to other places once it is spooled: current.*, extractor, label-logits, residual
    finished/<job>.accepted/   entry.json of a job that was answered; or <job>.rejected
    ready/<offer>/             a model that was offered and is ready to be taken
    staging/                   what the training child is writing; thrown away at every start
    learned/<prototype>.*      residual (of deltas, once the update was accepted), extractor (of predictor updates; the
                               whole model where no model is shared), label-logits (of FedDistill)
    current.onnx, current.safetensors, current.json       the model for the application on the board
    taken                      digest of the model last taken from an offer
    models/, partial/          see edge_agent/model_cache.py

The steps of a job are renames: the child writes and syncs a folder in staging/ and renames it into outbox/; what it
holds for other places is renamed there; the answer renames the rest into finished/. A rename happens or does not, and
needs no room on a full disk. After a kill at any point, `Store` finishes the renames that were begun.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from edge_agent.events import Spooled
from edge_agent.folders import lock, move, remove
from edge_agent.model_cache import ModelCache
from wire.chunks import Content, encode_chunk
from wire.errors import ConfigError, WireError
from wire.files import write_atomic
from wire.ids import transfer_id

__all__ = ["CURRENT", "EXTRACTOR", "KEEPING", "LABEL_LOGITS", "RESIDUAL", "Store", "learned_path"]

#: The last of them tells of the other two.
CURRENT = ("current.onnx", "current.safetensors", "current.json")
RESIDUAL, EXTRACTOR, LABEL_LOGITS = "residual", "extractor", "label-logits"
KEEPING = ("predictor", "logits")  # kinds of updates with which the device goes on from a model of its own
FOLDERS = ("outbox", "finished", "ready", "staging", "learned")
KEEP_FINISHED = 256


class Store:
    """The state folder of one agent; only one process may have it open."""

    def __init__(self, root: Path, *, prototype: str, cache_mb: int = 256) -> None:
        self.root = root
        self._prototype = prototype
        for name in FOLDERS:
            (root / name).mkdir(parents=True, exist_ok=True)
        self._lock = lock(root / "agent.lock")
        for stale in (root / "staging").iterdir():
            remove(stale)
        self.models = ModelCache(root, limit=cache_mb * 2**20)
        self._contents: dict[str, tuple[Path, Content]] = {}  # of the outbox, by transfer
        self._finish_renames()

    def close(self) -> None:
        """Let another process have it."""
        self._lock.close()

    def next_session(self) -> int:
        """One more than at the last start."""
        path = self.root / "session"
        try:
            number = int(path.read_text()) + 1
        except FileNotFoundError:
            number = 1
        except ValueError:
            raise ConfigError(f"{path}: holds no number; write one into it that is larger than any before") from None
        write_atomic(path, f"{number}\n")
        return number

    # ---- jobs

    def outbox(self) -> list[Spooled]:
        """The updates that were not answered yet, oldest round first."""
        found = (self.spooled(path.name) for path in sorted((self.root / "outbox").iterdir()))
        return [spooled for spooled in found if spooled is not None]

    def spooled(self, key: str) -> Spooled | None:
        """The update of this job, if it is in the outbox; one whose bytes are damaged is not, and is removed."""
        folder = self.root / "outbox" / key
        if not folder.is_dir():
            return None
        try:
            entry = json.loads((folder / "entry.json").read_bytes())
            content = Content(digest=entry["digest"], size=entry["size"])
            if (folder / "update").stat().st_size != content.size:
                raise ValueError
            spooled = Spooled(key, int(entry["round"]), transfer_id(content.digest), content.count)
        except (OSError, ValueError, KeyError, TypeError, WireError):
            remove(folder)
            return None
        self._contents[spooled.transfer] = folder / "update", content
        return spooled

    def chunk(self, transfer: str, n: int) -> bytes:
        """Chunk `n` of an update in the outbox, as it travels."""
        path, content = self._contents[transfer]
        offset, size = content.span(n)
        with path.open("rb") as file:
            file.seek(offset)
            return encode_chunk(content, n, file.read(size))

    def finished(self) -> list[str]:
        """The jobs that were answered, oldest first."""
        return sorted(path.stem for path in (self.root / "finished").iterdir())

    def settle(self, spooled: Spooled, *, accepted: bool) -> None:
        """The update was answered: one rename marks the job finished and takes it out of the outbox."""
        self._contents.pop(spooled.transfer, None)
        target = self.root / "finished" / f"{spooled.key}.{'accepted' if accepted else 'rejected'}"
        move(self.root / "outbox" / spooled.key, target)
        self._tidy(target)
        self._forget_old()

    # ---- what the child left

    def take_job(self, key: str) -> None:
        """Put what the child left beside its update to its place."""
        folder = self.root / "outbox" / key
        own = (folder / EXTRACTOR).exists()
        self._take(folder)
        if not own and _kind_of(folder) not in (*KEEPING, None):  # the model is the fleet's again
            remove(learned_path(self.root, self._prototype, EXTRACTOR))

    def take_offer(self, key: str, digest: str) -> None:
        """Put the model that was offered in its place, if the child found it good enough, and do not ask again."""
        self._take(self.root / "ready" / key)
        write_atomic(self.root / "taken", digest)
        remove(self.root / "ready" / key)

    @property
    def taken(self) -> str | None:
        """The model last taken from an offer."""
        try:
            return (self.root / "taken").read_text()
        except OSError:
            return None

    def _take(self, folder: Path) -> None:
        for name in CURRENT:
            if (folder / name).exists():
                move(folder / name, self.root / name)
        for name in (EXTRACTOR, LABEL_LOGITS):
            if (folder / name).exists():
                move(folder / name, learned_path(self.root, self._prototype, name))

    def _tidy(self, folder: Path) -> None:
        """What is left of an answered job: its residual counts if the aggregator has the update, else it never was."""
        self._take(folder)
        residual = folder / RESIDUAL
        if folder.suffix == ".accepted" and residual.exists():
            move(residual, learned_path(self.root, self._prototype, RESIDUAL))
        for path in folder.iterdir():
            if path.name != "entry.json":
                remove(path)

    def _finish_renames(self) -> None:
        for folder in sorted((self.root / "finished").iterdir()):
            self._tidy(folder)
        for folder in sorted((self.root / "outbox").iterdir()):
            self._take(folder)
        for folder in (self.root / "ready").iterdir():
            remove(folder)  # the offer is still retained: it comes again

    def _forget_old(self) -> None:
        with suppress(OSError):
            for folder in sorted((self.root / "finished").iterdir())[:-KEEP_FINISHED]:
                remove(folder)


def _kind_of(folder: Path) -> str | None:
    try:
        kind: str | None = json.loads((folder / "entry.json").read_bytes()).get("update")
    except (OSError, ValueError):
        return None
    return kind


def learned_path(root: Path, prototype: str, what: str) -> Path:
    """Where a prototype's residual or extractor is kept."""
    return root / "learned" / f"{prototype.replace(':', '-')}.{what}"
