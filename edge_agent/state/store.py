"""The state of an agent: one folder, in which every change is atomic.

    session                    a number that increases with every start of the agent
    newest.json                the newest epoch, round and models that were followed: edge_agent/protocol/replay.py
    outbox/<job>/              an update that is not answered yet: update (the sealed bytes), entry.json, and files
                               that are moved elsewhere once it is spooled: current.*, extractor, label-logits,
                               personal, residual
    finished/<job>.accepted/   entry.json of a job that was answered; or <job>.rejected
    ready/<offer>/             an offered model that is ready to be installed
    staging/                   output of the training child; deleted at every start
    learned/<prototype>.*      residual (of deltas, once the update was accepted), extractor (of predictor updates; the
                               whole model if no model is shared), label-logits (of FedDistill), personal (the model
                               that the board runs, if personal models are on), graph (of a light device, with the
                               fleet's extractor)
    current.onnx, current.safetensors, current.json       the model for the application on the board
    taken                      digest of the model last installed from an offer
    models/, partial/          see edge_agent/state/model_cache.py
    damaged/                   unusable files, set aside with a log line

The steps of a job are renames: the child writes and syncs a folder in staging/ and renames it into outbox/; files for
other places are renamed there; the answer renames the rest into finished/. A rename is atomic, and needs no space on a
full disk. After a kill at any point, `Store` finishes the renames that were begun.

A new epoch of the aggregator invalidates all state by round: outbox/, finished/, ready/, taken, the residual, which is
the rounding error of earlier updates, and the graph, whose extractor is an earlier model's. All of it is removed before
newest.json names the epoch: killed in between, the agent sees the new epoch again and removes the rest. If a child of
the old epoch commits later, its key reveals the epoch. Models are kept, because they are identified by digest; so are
locally trained weights, and the board's own model.

Nothing in the folder stops the agent: damaged files are set aside, and fetched or created again.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from core.errors import WireError
from core.files import move, write_atomic
from edge_agent.protocol.events import Spooled
from edge_agent.protocol.replay import Newest, epoch_of, round_of
from edge_agent.state.folders import lock, read_small, remove, set_aside
from edge_agent.state.model_cache import ModelCache, file_digest
from wire.chunks import Content, encode_chunk
from wire.ids import check_digest, transfer_id
from wire.messages import MODEL_STAYS

__all__ = ["CURRENT", "EXTRACTOR", "GRAPH", "KEEPING", "LABEL_LOGITS", "PERSONAL", "RESIDUAL", "Store", "learned_path"]

#: The last of them describes the other two.
CURRENT = ("current.onnx", "current.safetensors", "current.json")
RESIDUAL, EXTRACTOR, LABEL_LOGITS, PERSONAL = "residual", "extractor", "label-logits", "personal"
GRAPH = "graph"
KEEPING = ("predictor", *MODEL_STAYS)  # kinds of updates with which the device continues from its own model
NEWEST = "newest.json"
FOLDERS = ("outbox", "finished", "ready", "staging", "learned", "models", "partial")
FILES = ("agent.lock", "child.lock", "session", NEWEST, "settings.json", "taken", *CURRENT)
KEEP_FINISHED = 256
MAX_SESSION = 2**52
log = logging.getLogger("edgestill.agent")


class _Entry(msgspec.Struct, frozen=True):
    """entry.json of an update, as edge_agent/child/outbox.py writes it."""

    round: Annotated[int, Meta(ge=1, le=2**32 - 1)]
    digest: str
    size: Annotated[int, Meta(ge=0)]
    update: str | None = None
    personal: bool = False  # whether the device also keeps a personal model


class Store:
    """The state folder of one agent; only one process may have it open."""

    def __init__(self, root: Path, *, prototype: str, cache_mb: int = 256) -> None:
        self.root = root
        self._prototype = prototype
        root.mkdir(parents=True, exist_ok=True)
        self._check_kinds()
        self._lock = lock(root / "agent.lock")
        for stale in (root / "staging").iterdir():
            remove(stale)
        self.models = ModelCache(root, limit=cache_mb * 2**20)
        self._contents: dict[str, tuple[Path, Content]] = {}  # of the outbox, by transfer
        self.newest = self._read_newest()
        self._drop_older()
        self._finish_renames()

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()

    def next_session(self) -> int:
        """One more than at the last start; if that is unknown, a number from the clock, which is larger than any."""
        path = self.root / "session"
        try:
            text = read_small(path)
            number = int(text) + 1
            if not text.endswith(b"\n") or not 1 <= number <= MAX_SESSION:  # truncated, it would be a smaller number
                raise ValueError
        except FileNotFoundError:
            number = 1
        except ValueError:
            number = self._time() + 1
            set_aside(self.root, path, f"has no session number; this is session {number}")
        write_atomic(path, f"{number}\n")
        return number

    def _time(self) -> int:
        """The time of the clock or, if a board has none after a power cut, at least that of the newest file."""
        times = [time.time()]
        for path in self.root.iterdir():
            with suppress(OSError):
                times.append(path.lstat().st_mtime)
        return int(min(max(times), MAX_SESSION - 1))

    # ---- epochs

    def forget_before(self, epoch: int) -> None:
        """Remove the state of earlier epochs: the aggregator has started over."""
        for name in ("outbox", "finished", "ready"):
            for path in (self.root / name).iterdir():
                if epoch_of(path.name.partition(".")[0]) != epoch:
                    remove(path)
        remove(self.root / "taken")
        for what in (RESIDUAL, GRAPH):
            for path in (self.root / "learned").glob(f"*.{what}"):
                remove(path)

    def follow(self, newest: Newest) -> None:
        """Store the newest instruction."""
        write_atomic(self.root / NEWEST, msgspec.json.encode(newest))
        self.newest = newest

    def _read_newest(self) -> Newest:
        """The stored newest instruction; if it is damaged or missing, it is derived from the names of jobs."""
        kept = Newest()
        try:
            kept = msgspec.json.decode(read_small(self.root / NEWEST), type=Newest)
        except FileNotFoundError:
            pass
        except (ValueError, msgspec.MsgspecError) as error:
            set_aside(self.root, self.root / NEWEST, str(error))
        keys = [path.name.partition(".")[0] for name in ("outbox", "finished") for path in (self.root / name).iterdir()]
        epoch, number = max(((epoch_of(key) or 0, round_of(key)) for key in keys), default=(0, 0))
        if epoch and (epoch, number) > (kept.epoch, kept.round):
            return Newest(epoch=epoch, round=number, numbers=kept.numbers if kept.epoch == epoch else {})
        return kept

    def _drop_older(self) -> None:
        """Remove leftovers of an older epoch, after a kill or from a child that finished late."""
        for name in ("outbox", "finished"):
            for path in (self.root / name).iterdir():
                if epoch_of(path.name.partition(".")[0]) not in (None, self.newest.epoch):
                    log.warning("%s: of an older epoch; dropped", path)
                    remove(path)

    # ---- jobs

    def outbox(self) -> list[Spooled]:
        """The updates that are not answered yet, oldest round first."""
        found = (self.spooled(path.name) for path in sorted((self.root / "outbox").iterdir()))
        return [spooled for spooled in found if spooled is not None]

    def spooled(self, key: str) -> Spooled | None:
        """The update of this job, if it is in the outbox; a damaged one is set aside."""
        folder = self.root / "outbox" / key
        if not os.path.lexists(folder):
            return None
        try:
            entry = msgspec.json.decode(read_small(folder / "entry.json"), type=_Entry)
            content = Content(digest=entry.digest, size=entry.size)
            if file_digest(folder / "update", content.size) != content.digest:
                raise ValueError("its update is damaged")
        except (OSError, ValueError, msgspec.MsgspecError, WireError) as error:
            set_aside(self.root, folder, f"no whole update ({error})")
            return None
        spooled = Spooled(key, entry.round, transfer_id(content.digest), content.count)
        self._contents[spooled.transfer] = folder / "update", content
        return spooled

    def chunk(self, transfer: str, n: int) -> bytes:
        """Chunk `n` of an update in the outbox, encoded for sending."""
        path, content = self._contents[transfer]
        offset, size = content.span(n)
        with path.open("rb") as file:
            file.seek(offset)
            return encode_chunk(content, n, file.read(size))

    def finished(self) -> list[str]:
        """The jobs that were answered, oldest first."""
        return sorted(path.stem for path in (self.root / "finished").iterdir())

    def settle(self, spooled: Spooled, *, accepted: bool) -> None:
        """The update was answered: one rename marks the job finished and removes it from the outbox."""
        self._contents.pop(spooled.transfer, None)
        target = self.root / "finished" / f"{spooled.key}.{'accepted' if accepted else 'rejected'}"
        move(self.root / "outbox" / spooled.key, target)
        self._tidy(target)
        self._forget_old()

    # ---- output of the child

    def take_job(self, key: str) -> None:
        """Move the files that the child wrote along with its update to their places."""
        folder = self.root / "outbox" / key
        own = (folder / EXTRACTOR).exists()
        self._take(folder)
        entry = _entry_of(folder)
        if entry is None or entry.update is None:
            return
        if not own and entry.update not in KEEPING:  # the device uses the fleet's model again
            remove(learned_path(self.root, self._prototype, EXTRACTOR))
        if not entry.personal:
            remove(learned_path(self.root, self._prototype, PERSONAL))

    def take_offer(self, key: str, digest: str) -> None:
        """Install the offered model, if the child found it good enough, and record the offer as done."""
        self._take(self.root / "ready" / key)
        write_atomic(self.root / "taken", digest)
        remove(self.root / "ready" / key)

    @property
    def taken(self) -> str | None:
        """The model last installed from an offer."""
        try:
            digest = read_small(self.root / "taken", 64).decode()
            check_digest(digest)
            return digest
        except FileNotFoundError:
            return None
        except (ValueError, WireError) as error:
            set_aside(self.root, self.root / "taken", str(error))
            return None

    def _take(self, folder: Path) -> None:
        for name in CURRENT:
            self._put(folder / name, self.root / name)
        for name in (EXTRACTOR, LABEL_LOGITS, PERSONAL, GRAPH):
            self._put(folder / name, learned_path(self.root, self._prototype, name))

    def _put(self, source: Path, target: Path) -> None:
        """Rename a file, if it exists; a folder at the target is set aside."""
        if source.exists():
            if target.is_dir():
                set_aside(self.root, target, "a folder where a file belongs")
            move(source, target)

    def _tidy(self, folder: Path) -> None:
        """Clean up an answered job: its residual is kept only if the aggregator accepted the update."""
        self._take(folder)
        residual = folder / RESIDUAL
        if folder.suffix == ".accepted" and residual.exists():
            self._put(residual, learned_path(self.root, self._prototype, RESIDUAL))
        for path in folder.iterdir():
            if path.name != "entry.json":
                remove(path)

    def _check_kinds(self) -> None:
        """Check that every name is a file or a folder as expected; anything else is set aside."""
        for name in FOLDERS:
            path = self.root / name
            if os.path.lexists(path) and not path.is_dir():
                set_aside(self.root, path, "not a folder")
            path.mkdir(exist_ok=True)
        learned = (self.root / "learned").iterdir()
        for path in (*(self.root / name for name in FILES), *learned):
            if os.path.lexists(path) and not path.is_file():
                set_aside(self.root, path, "not a file")

    def _finish_renames(self) -> None:
        for folder in sorted((self.root / "finished").iterdir()):
            if folder.is_dir():
                self._tidy(folder)
            else:
                set_aside(self.root, folder, "not a folder")
        for folder in sorted((self.root / "outbox").iterdir()):
            self._take(folder)
        for folder in (self.root / "ready").iterdir():
            remove(folder)  # the offer is still retained at the broker

    def _forget_old(self) -> None:
        with suppress(OSError):
            for folder in sorted((self.root / "finished").iterdir())[:-KEEP_FINISHED]:
                remove(folder)


def _entry_of(folder: Path) -> _Entry | None:
    try:
        return msgspec.json.decode(read_small(folder / "entry.json"), type=_Entry)
    except (OSError, ValueError, msgspec.MsgspecError):
        return None


def learned_path(root: Path, prototype: str, what: str) -> Path:
    """The path of a prototype's residual, extractor or graph."""
    return root / "learned" / f"{prototype.replace(':', '-')}.{what}"
