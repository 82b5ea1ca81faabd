"""Backup of a fleet in one file, also while it is served, and restore into a state folder.

    backup.json              format, fleet, schema, round, and the SHA-256 of every file that is not a blob
    journal.db               a snapshot by SQLite's own backup
    memory/N.safetensors     the recipe's memory
    blobs/DIGEST             every model that is not pruned, and the stored updates that the journal names

It is an uncompressed tar file: models and updates hardly compress. It contains no key. A restored fleet begins a new
epoch, so that agents that have seen later rounds follow it (docs/protocol.md).
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from aggregator.status import only_service
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.schema import SCHEMA
from aggregator.storage.state_check import RESTORING, check_state
from core.errors import ConfigError, EdgestillError, StorageError
from core.files import atomic_file, open_regular, sync
from wire.ids import digest_of

__all__ = ["back_up", "put_back"]

FORMAT = 1
TRIES = 5  # rounds may close, and delete their updates, during the copy
MANIFEST, JOURNAL = "backup.json", "journal.db"
MEMBER = re.compile(r"journal\.db|memory/[0-9]{1,10}\.safetensors|blobs/[0-9a-f]{64}")
MAX_MANIFEST = 2**20
PIECE = 2**20


class _MovedError(Exception):
    """The fleet has changed meanwhile: start over."""


def back_up(state: Path, to: Path) -> dict[str, Any]:
    """Write a backup of the fleet in `state`, running or not, to the file `to`; returns a summary."""
    if to.is_dir():
        raise ConfigError(f"{to}: is a folder; name the file to write, such as {to / 'fleet.tar'}")
    if not to.parent.is_dir():
        raise ConfigError(f"{to}: there is no folder {to.parent}; create it first")
    Journal(state / JOURNAL, read_only=True).close()  # raises if it is unusable
    with atomic_file(to, mode=0o600) as file:
        facts = _write(state, file)
    return {"path": str(to), **facts, "bytes": to.stat().st_size}


def _write(state: Path, file: IO[bytes]) -> dict[str, Any]:
    for _ in range(TRIES):
        file.seek(0)
        file.truncate()
        with tempfile.TemporaryDirectory(prefix="edgestill-backup-") as folder:
            try:
                return _write_once(state, Path(folder) / JOURNAL, file)
            except _MovedError:
                continue
    raise StorageError(f"{state}: rounds close faster than they can be copied; try again, or stop the rounds first")


def _write_once(state: Path, snapshot: Path, file: IO[bytes]) -> dict[str, Any]:
    _copy_journal(state / JOURNAL, snapshot)
    journal = Journal(snapshot)
    try:
        last = journal.last_round()
        closed = _last_closed(journal)
        models = {model.digest for model in journal.unpruned()}
        needed = {model.digest for model in journal.current().values()}
        if last is not None and last.phase in ("open", "fusing"):
            needed |= {row.digest for row in journal.updates(last.number)}
            needed |= {asked.model for asked in journal.invitations(last.number)}
        needed |= {row.digest for row in journal.buffer()} | journal.needed_bases(0)
        kept = needed | journal.named_blobs(keep_rounds=10**9)
        manifest = _new_manifest(journal, snapshot)
    finally:
        journal.close()
    memory = {f"memory/{path.name}": path.read_bytes() for path in sorted((state / "memory").glob("*.safetensors"))}
    if _closed_in(state) > closed:  # the memory that the next round needs may have been deleted
        raise _MovedError
    manifest["files"] |= {name: digest_of(data) for name, data in memory.items()}
    with tarfile.open(fileobj=file, mode="w") as archive:
        _add(archive, MANIFEST, json.dumps(manifest, indent=1).encode())
        _add(archive, JOURNAL, snapshot.read_bytes())
        for name, data in memory.items():
            _add(archive, name, data)
        added = _add_blobs(archive, Blobs(state / "blobs"), kept, needed, lambda: _closed_in(state) > closed)
    lost = sorted(models - added)
    return {
        "fleet": manifest["fleet"],
        "round": manifest["round"],
        "models": len(models) - len(lost),
        "blobs": len(added),
        "models_lost": lost,  # older ones, whose blobs are missing or damaged
    }


def _new_manifest(journal: Journal, snapshot: Path) -> dict[str, Any]:
    """The manifest of a backup, with the journal as its only file so far."""
    last = journal.last_round()
    return {
        "format": FORMAT,
        "fleet": journal.get("fleet"),
        "created": time.time(),
        "schema": SCHEMA,
        "round": 0 if last is None else last.number,
        "files": {JOURNAL: digest_of(snapshot.read_bytes())},
    }


def _add_blobs(
    archive: tarfile.TarFile, blobs: Blobs, kept: set[str], needed: set[str], moved: Callable[[], bool]
) -> set[str]:
    """The blobs that were added: all required ones, and the others if intact."""
    added = set()
    for digest in sorted(kept):
        try:
            data = blobs.read(digest)
        except StorageError:
            if digest not in needed:
                continue  # an update of a closed round, which is kept only for a while, or an older model
            if moved():
                raise _MovedError from None
            raise
        _add(archive, f"blobs/{digest}", data)
        added.add(digest)
    return added


def _copy_journal(path: Path, to: Path) -> None:
    source, copy = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30), sqlite3.connect(to)
    try:
        source.backup(copy)
    except sqlite3.Error as error:
        raise StorageError(f"{path}: cannot be copied: {error}") from error
    finally:
        copy.close()
        source.close()


def _closed_in(state: Path) -> int:
    journal = Journal(state / JOURNAL, read_only=True)
    try:
        return _last_closed(journal)
    finally:
        journal.close()


def _last_closed(journal: Journal) -> int:
    last = journal.last_closed()
    return 0 if last is None else last.number


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = len(data), 0o600, int(time.time())
    archive.addfile(member, io.BytesIO(data))


def put_back(archive: Path, state: Path, *, fleet: str, now: float, force: bool = False) -> dict[str, Any]:
    """Restore a backup into `state`, in a new epoch; with `force`, existing files are moved aside, not deleted."""
    state.parent.mkdir(parents=True, exist_ok=True)
    with only_service(state), tempfile.TemporaryDirectory(dir=state.parent, prefix=f".{state.name}.") as folder:
        held = [entry for entry in _contents(state) if entry.name != "status.json"]
        if any(entry.name in (JOURNAL, "blobs") for entry in held) and not force:
            raise ConfigError(
                f"{state}: already contains a fleet; with --force it is moved aside, and nothing is deleted"
            )
        fresh = Path(folder)
        manifest = _unpack(archive, fresh)
        if manifest["fleet"] != fleet:
            raise ConfigError(f"{archive}: a backup of fleet {manifest['fleet']!r}; this is fleet {fleet!r}")
        revoked = _revoked_in(state / JOURNAL)
        epoch = _prepare(archive, fresh, now, revoked or ())
        aside = _exchange(state, fresh, now)
    return {
        "state": str(state),
        "fleet": fleet,
        "round": manifest["round"],
        "created": manifest["created"],
        "epoch": epoch,
        "revoked": None if revoked is None else sorted(revoked),  # None: unknown
        "moved_aside": None if aside is None else str(aside),
    }


def _unpack(archive: Path, folder: Path) -> dict[str, Any]:
    """Unpack the files of a backup and verify their SHA-256; returns its manifest."""
    found: dict[str, str] = {}
    (folder / "blobs").mkdir()
    (folder / "memory").mkdir()
    try:
        with os.fdopen(open_regular(archive), "rb") as file, tarfile.open(fileobj=file, mode="r:") as tar:
            members = iter(tar)
            manifest = _manifest(tar, next(members, None))
            for member in members:
                if not member.isreg() or not MEMBER.fullmatch(member.name) or member.name in found:
                    raise ConfigError(f"{archive}: contains {member.name!r}, which is not part of a backup")
                found[member.name] = _extract(tar, member, folder / member.name)
    except (OSError, tarfile.TarError, EOFError, ValueError, KeyError) as error:
        raise ConfigError(f"{archive}: not a readable backup: {error}") from error
    expected = dict(manifest["files"])
    for name, digest in found.items():
        if name.removeprefix("blobs/") != digest if name.startswith("blobs/") else expected.pop(name, "") != digest:
            raise ConfigError(f"{archive}: {name} is damaged; use another backup")
    if expected:
        raise ConfigError(f"{archive}: {min(expected)} is missing; use another backup")
    return manifest


def _manifest(tar: tarfile.TarFile, member: tarfile.TarInfo | None) -> dict[str, Any]:
    if member is None or member.name != MANIFEST or not 0 < member.size <= MAX_MANIFEST:
        raise ValueError(f"it does not begin with {MANIFEST}")
    file = tar.extractfile(member)
    manifest = json.loads(file.read()) if file is not None else None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise ValueError(f"{MANIFEST} is malformed")
    if manifest.get("format") != FORMAT:
        raise ValueError(f"format {manifest.get('format')!r}, this edgestill reads {FORMAT}")
    for name in ("fleet", "round", "created"):
        manifest[name]
    return manifest


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, to: Path) -> str:
    source = tar.extractfile(member)
    if source is None:
        raise ValueError(f"{member.name} has no content")

    def copied() -> Iterator[bytes]:
        with open(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            while piece := source.read(PIECE):
                file.write(piece)
                yield piece
            file.flush()
            os.fsync(file.fileno())

    return digest_of(copied())


def _revoked_in(path: Path) -> set[str] | None:
    """The revoked devices of the replaced fleet; None if its journal is missing or unreadable."""
    if not path.is_file():
        return None
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return {str(row[0]) for row in db.execute("SELECT id FROM devices WHERE revoked")}
    except sqlite3.Error:
        return None
    finally:
        db.close()


def _prepare(archive: Path, folder: Path, now: float, revoked: Collection[str]) -> int:
    """Check the unpacked fleet, keep revocations that are newer than the backup, and begin its new epoch."""
    try:
        journal = Journal(folder / JOURNAL)
        try:
            check_state(journal, Blobs(folder / "blobs"), folder)
            with journal.transaction():
                for device in revoked:
                    journal.note_device(device, revoked=1)
            epoch = journal.begin_epoch(now)
        finally:
            journal.close()
    except EdgestillError as error:
        raise ConfigError(f"{archive}: cannot be restored: {error}") from error
    for path in (folder / "blobs", folder / "memory", folder):
        sync(path)
    return epoch


def _contents(state: Path) -> list[Path]:
    return [entry for entry in sorted(state.iterdir()) if entry.name not in ("lock", RESTORING)]


def _exchange(state: Path, fresh: Path, now: float) -> Path | None:
    """Move old files aside and new ones in, the journal last. Meanwhile a marker makes the service refuse to start."""
    old = _contents(state)
    with _marked(state):
        aside = None
        if old:
            stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
            aside = Path(tempfile.mkdtemp(dir=state.parent, prefix=f"{state.name}.before-restore-{stamp}-"))
            for entry in old:
                shutil.move(entry, aside / entry.name)
        for name in ("memory", "blobs", JOURNAL):
            os.replace(fresh / name, state / name)
        sync(state)
    sync(state)
    return aside


@contextmanager
def _marked(state: Path) -> Iterator[None]:
    marker = state / RESTORING
    marker.touch()
    sync(state)
    yield
    marker.unlink()
